import { expect, test } from 'vitest'
import { endIfGone } from './peer-socket.js'

function socketOf(fields: object) {
  const socket = {
    destroys: 0,
    destroy: () => {
      socket.destroys++
    },
    ...fields,
  }
  return socket
}

test.each([
  ['was reset and is not destroyed yet', { destroyed: false, localAddress: '192.0.2.1' }],
  ['is destroyed', { destroyed: true }],
])(
  'the client of a socket without a peer that %s has left, and the socket is destroyed',
  (_, fields) => {
    const socket = socketOf(fields)
    expect(endIfGone(socket)).toBe(true)
    expect(socket.destroys).toBe(1)
  },
)

test.each([
  [
    'a socket with a peer',
    { destroyed: false, remoteAddress: '192.0.2.9', localAddress: '192.0.2.1' },
  ],
  [
    'a socket that was destroyed after its peer was read',
    { destroyed: true, remoteAddress: '192.0.2.9' },
  ],
  ['a Unix domain socket', { destroyed: false }],
])('the client of %s counts as present', (_, fields) => {
  const socket = socketOf(fields)
  expect(endIfGone(socket)).toBe(false)
  expect(socket.destroys).toBe(0)
})

test('a call without a socket has no client that could leave', () => {
  expect(endIfGone(undefined)).toBe(false)
})
