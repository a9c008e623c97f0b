import { describe, expect, test } from 'vitest'
import { parseConfig } from './parse-config.js'

const SECRET = { SLUICE_KEY_SECRET: '000102030405060708090a0b0c0d0e0f' }

function parse(text: string, env: Record<string, string> = SECRET) {
  return parseConfig(text, { file: '/etc/sluice/sluice.yaml', env, readFile: () => '' })
}

const ringOf = (text: string, env?: Record<string, string>) => parse(text, env).config?.ring
const errorsOf = (text: string, env?: Record<string, string>) =>
  parse(text, env).errors.map(({ message }) => message)

const LISTEN = 'listen: "127.0.0.1:8083"'

describe('a ring', () => {
  test('is none unless it is configured', () => {
    expect(ringOf('{}')).toBeUndefined()
    expect(errorsOf('{}')).toEqual([])
  })

  test.each([
    ['dns:sluice.default.svc:8083', { kind: 'dns', host: 'sluice.default.svc', port: 8083 }],
    ['srv:_ring._tcp.sluice.local', { kind: 'srv', name: '_ring._tcp.sluice.local' }],
    ['file:peers', { kind: 'file', path: '/etc/sluice/peers' }],
    [
      '10.0.0.1:8083, 10.0.0.2:8083',
      {
        kind: 'list',
        addresses: [
          { host: '10.0.0.1', port: 8083 },
          { host: '10.0.0.2', port: 8083 },
        ],
      },
    ],
  ])('has the list of its members in %s', (peers, expected) => {
    expect(ringOf(`ring: { ${LISTEN}, peers: "${peers}" }`)).toEqual({
      listen: { host: '127.0.0.1', port: 8083 },
      advertise: { host: '127.0.0.1', port: 8083 },
      peers: expected,
      deadlineMs: 50,
      tls: undefined,
    })
  })

  test('reads a list, a deadline, another address, and certificates beside the file', () => {
    const tls = '{ ca: ca.pem, cert: /a/cert.pem, key: key.pem }'
    const more = `advertise: "10.0.0.5:8083", deadline: 20ms, tls: ${tls}`
    expect(ringOf(`ring: { listen: "0.0.0.0:8083", peers: ["10.0.0.5:8083"], ${more} }`)).toEqual({
      listen: { host: '0.0.0.0', port: 8083 },
      advertise: { host: '10.0.0.5', port: 8083 },
      peers: { kind: 'list', addresses: [{ host: '10.0.0.5', port: 8083 }] },
      deadlineMs: 20,
      tls: { ca: '/etc/sluice/ca.pem', cert: '/a/cert.pem', key: '/etc/sluice/key.pem' },
    })
  })

  test('is configured by variables alone', () => {
    const env = { SLUICE_RING_LISTEN: '127.0.0.1:1', SLUICE_RING_PEERS: '127.0.0.1:1' }
    expect(ringOf('{}', { ...SECRET, ...env, SLUICE_STORE_DEADLINE_MS: '7' })).toMatchObject({
      listen: { host: '127.0.0.1', port: 1 },
      deadlineMs: 7,
    })
  })

  test.each([
    ['no address', 'ring: { peers: "10.0.0.1:1" }', 'no ring.listen'],
    ['no list', `ring: { ${LISTEN} }`, 'no ring.peers'],
    ['a list that is none', `ring: { ${LISTEN}, peers: "somewhere" }`, 'dns:host:port'],
    ['a member without a port', `ring: { ${LISTEN}, peers: ["10.0.0.1:0"] }`, 'port from 1'],
    ['any port', 'ring: { listen: "127.0.0.1:0", peers: "a:1" }', 'a port from 1 to 65535'],
    ['all addresses', 'ring: { listen: "0.0.0.0:1", peers: "a:1" }', 'ring.advertise'],
    [
      'no TLS elsewhere',
      'ring: { listen: "10.0.0.1:1", peers: "a:1" }',
      'only loopback is allowed',
    ],
    ['half a certificate', `ring: { ${LISTEN}, peers: "a:1", tls: { ca: a } }`, 'ca, cert and key'],
    ['workers', `{ workers: 2, ring: { ${LISTEN}, peers: "a:1" } }`, 'workers: 1 beside a ring'],
    ['Redis', `{ redis: { url: "redis://a" }, ring: { ${LISTEN}, peers: "a:1" } }`, 'beside Redis'],
  ])('with %s is refused', (_, text, expected) => {
    expect(errorsOf(text).join('\n')).toContain(expected)
  })

  test('needs a secret, which is the same on all nodes', () => {
    const messages = errorsOf(`ring: { ${LISTEN}, peers: "a:1" }`, {})
    expect(messages).toHaveLength(1)
    expect(messages[0]).toContain('no SLUICE_KEY_SECRET')
  })
})
