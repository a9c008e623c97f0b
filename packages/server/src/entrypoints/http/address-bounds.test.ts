import { parseTrustedProxies } from '@sluice/core'
import { expect, test } from 'vitest'
import { AddressBounds, exemptAddresses } from './address-bounds.js'

const TRUSTED = parseTrustedProxies(['10.0.0.0/8', '2001:db8:ffff::/48']).cidrs

const boundsOf = (maxConnections = 2, maxCalls = 2) =>
  new AddressBounds({ maxConnections, maxCalls, isExempt: exemptAddresses(TRUSTED) })

test('an address may open as many connections as allowed, independent of other addresses', () => {
  const bounds = boundsOf()
  bounds.connect('192.0.2.1')
  bounds.connect('192.0.2.1')
  expect(bounds.connect('192.0.2.1')).toEqual({ refused: '192.0.2.1' })
  expect(bounds.connect('192.0.2.2')).toMatchObject({ connections: 1 })
})

test('an IPv4-mapped IPv6 address is the same as its IPv4 address', () => {
  const bounds = boundsOf()
  bounds.connect('192.0.2.1')
  expect(bounds.connect('::ffff:192.0.2.1')).toMatchObject({
    address: '192.0.2.1',
    connections: 2,
  })
})

test('IPv6 addresses are counted by their network of 64 bits', () => {
  const bounds = boundsOf()
  bounds.connect('2001:db8::1')
  bounds.connect('2001:db8::ffff:2')
  expect(bounds.connect('2001:db8:0:0:9::1')).toEqual({ refused: '2001:db8::/64' })
  expect(bounds.connect('2001:db8:0:1::1')).toMatchObject({ connections: 1 })
})

test.each([
  '127.0.0.1',
  '127.9.9.9',
  '::1',
  '::ffff:127.0.0.1',
  '10.1.2.3',
  '::ffff:10.1.2.3',
  '2001:db8:ffff::7',
])('%s, the loopback or a trusted proxy, is never counted', (address) => {
  const bounds = boundsOf(1)
  expect(bounds.connect(address)).toBeUndefined()
  expect(bounds.connect(address)).toBeUndefined()
  expect(bounds.size()).toBe(0)
})

test.each([undefined, '', 'nowhere'])(
  'a peer without an address (%s) is not counted',
  (address) => {
    const bounds = boundsOf(1)
    expect(bounds.connect(address)).toBeUndefined()
    expect(bounds.find(address)).toBeUndefined()
  },
)

test('an address is removed with its last connection', () => {
  const bounds = boundsOf()
  const uses = [bounds.connect('192.0.2.1'), bounds.connect('192.0.2.1')]
  for (const use of uses) if (use !== undefined && 'calls' in use) bounds.disconnect(use)
  expect(bounds.size()).toBe(0)
  expect(bounds.find('192.0.2.1')).toBeUndefined()
})
