import { describe, expect, test } from 'vitest'
import { type AddressedRequest, ClientIp } from './client-ip.js'

interface Given {
  readonly peer?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
  readonly context?: unknown
}

function requestOf({ peer = '10.0.0.9', headers = {}, context }: Given): AddressedRequest<string> {
  return {
    request: 'the request',
    raw: { id: 7 },
    context,
    peer: () => peer,
    endIfGone: () => false,
    header: (name) => headers[name],
  }
}

type Options = Parameters<typeof ClientIp.create<string>>[0]

const read = (options: Options, given: Given = {}, isSocketKnown = true) =>
  ClientIp.create<string>(options, isSocketKnown)?.read(requestOf(given))

describe('the address of a client', () => {
  test('is that of the socket, whatever headers claim', () => {
    const headers = { 'x-forwarded-for': '203.0.113.1', 'cf-connecting-ip': '203.0.113.2' }
    expect(read({}, { headers })).toBe('10.0.0.9')
  })

  test('is what trusted proxies forward', () => {
    const options = { trustedProxies: ['10.0.0.0/8'] }
    const headers = { 'x-forwarded-for': '198.51.100.1, 203.0.113.1, 10.1.1.1' }
    expect(read(options, { headers })).toBe('203.0.113.1')
    expect(read(options, { headers, peer: '192.0.2.9' })).toBe('192.0.2.9')
  })

  test.each([
    ['cloudflare', 'cf-connecting-ip'],
    ['vercel', 'x-real-ip'],
  ] as const)('is in the header of %s', (address, header) => {
    expect(read({ address }, { headers: { [header]: '203.0.113.5' } }, false)).toBe('203.0.113.5')
    expect(read({ address }, {}, false)).toBeUndefined()
  })

  test('is in the info of Deno', () => {
    const context = { remoteAddr: { hostname: '203.0.113.6' } }
    expect(read({ address: 'deno' }, { context }, false)).toBe('203.0.113.6')
    expect(read({ address: 'deno' }, {}, false)).toBeUndefined()
  })

  test('is known to the server of Bun, also within the context of Hono', () => {
    const server = { requestIP: ({ id }: { id: number }) => ({ address: `203.0.113.${id}` }) }
    expect(read({ address: 'bun' }, { context: server }, false)).toBe('203.0.113.7')
    expect(read({ address: 'bun' }, { context: { server } }, false)).toBe('203.0.113.7')
    expect(read({ address: 'bun' }, {}, false)).toBeUndefined()
  })

  test('is read behind trusted proxies on Deno and Bun too', () => {
    const context = { remoteAddr: { hostname: '10.0.0.1' } }
    const headers = { 'x-forwarded-for': '203.0.113.8' }
    const options = { address: 'deno', trustedProxies: ['10.0.0.0/8'] } as const
    expect(read(options, { context, headers }, false)).toBe('203.0.113.8')
  })

  test('is what a function returns for the request and its context', () => {
    const address = (request: string, context: unknown) => `${request} ${String(context)}`
    expect(read({ address }, { context: 'of 7' }, false)).toBe('the request of 7')
  })

  test('is not guessed where nothing says where it is', () => {
    expect(ClientIp.create({}, false)).toBeUndefined()
  })
})

describe('an option of the address', () => {
  test.each<[string, object, boolean]>([
    ["address: found 'nginx'; accepted: 'socket', 'cloudflare',", { address: 'nginx' }, true],
    ["address: found 'socket', which this runtime does not show", { address: 'socket' }, false],
    ['trustedProxies: found with no address', { trustedProxies: ['10.0.0.0/8'] }, false],
    [
      "trustedProxies: found with address 'vercel'",
      { trustedProxies: ['10.0.0.0/8'], address: 'vercel' },
      true,
    ],
    ['trustedProxies: found "0.0.0.0/0", which trusts', { trustedProxies: ['0.0.0.0/0'] }, true],
    ['trustedProxies: found true; accepted: a list', { trustedProxies: true }, true],
  ])('is refused with "%s"', (message, options, isSocketKnown) => {
    expect(() => ClientIp.create(options as Options, isSocketKnown)).toThrow(message)
  })
})
