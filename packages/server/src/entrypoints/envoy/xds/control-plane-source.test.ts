/** Follows a real control plane on a real socket. */
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { createMemoryLog } from '../../../observability/log/memory-log.test-helper.js'
import type { EnvoyConfig } from '../config/config-source.js'
import { closeAfterEach, closeAfterTest, eventually } from '../envoy.test-helper.js'
import type { OfficialConfig } from '../protobuf/rate-limit-config.test-helper.js'
import { CONFIG_TYPE, TestControlPlane } from './control-plane.test-helper.js'
import {
  type ControlPlaneOptions,
  type ControlPlaneSource,
  followControlPlane,
  retryAfterMs,
} from './control-plane-source.js'

closeAfterEach()

const FAST = { firstMs: 10, mostMs: 20 }

function follow(port: number, options: Partial<ControlPlaneOptions> = {}, times: object = {}) {
  const { log, lines } = createMemoryLog()
  const source = followControlPlane(
    {
      server: `127.0.0.1:${port}`,
      node: { id: 'envoy-ratelimit', metadata: { zone: 'a' } },
      tls: undefined,
      headers: new Map(),
      maxMessageBytes: 1024 * 1024,
      backoff: FAST,
      ...options,
    },
    { log, random: () => 0, times: { refuseAgainMs: 20, ...times } },
  )
  closeAfterTest(() => source.close())
  const changes: EnvoyConfig[] = []
  source.onChange((config) => changes.push(config))
  return { source, changes, lines, messages: () => lines.map(({ msg }) => msg) }
}

async function start(options: Partial<ControlPlaneOptions> = {}, times: object = {}) {
  const plane = await new TestControlPlane().start()
  return { plane, ...follow(plane.port, options, times) }
}

function configOf(domain: string, requests: number, name = domain): OfficialConfig {
  const limit = { unit: 'MINUTE', requests_per_unit: requests }
  return { name, domain, descriptors: [{ key: 'user', rate_limit: limit }] }
}

const BAD: OfficialConfig = {
  name: 'first-listener',
  domain: 'shop',
  descriptors: [{ key: 'user', rate_limit: { requests_per_unit: 1 } }],
}
const BAD_MESSAGE =
  'resource first-listener: descriptors[0].rate_limit.unit: unknown value "unknown". ' +
  'Accepted: second, minute, hour, day, week, month, year'

function requestsOf(source: ControlPlaneSource, domain = 'shop'): number | undefined {
  const entries = [{ key: 'user', value: 'u1' }]
  return source.current()?.domains.get(domain)?.select(entries)?.node.limit.requestsPerUnit
}

describe('a control plane that answers', () => {
  test('the first request asks for all resources of the type, with the node', async () => {
    const { plane, source } = await start()
    await eventually(() => plane.requests.length).toBe(1)
    expect(plane.requests[0]).toMatchObject({
      version_info: '',
      response_nonce: '',
      type_url: CONFIG_TYPE,
      resource_names: [],
      error_detail: null,
      node: { id: 'envoy-ratelimit', user_agent_name: 'sluice' },
    })
    const zone = { stringValue: 'a' }
    expect(plane.requests[0]?.node.metadata?.fields).toEqual({ zone })
    expect(source.current()).toBeUndefined()
    await eventually(() => source.isConnected()).toBe(true)
    expect(source.problem()).toBe(
      `control plane 127.0.0.1:${plane.port}: it has sent nothing to the node envoy-ratelimit yet`,
    )
  })

  test('a response without errors is active, and is acknowledged with version and nonce', async () => {
    const { plane, source, changes } = await start()
    const nonce = await plane.send('v1', [configOf('shop', 5)])
    const answer = await plane.answerOf(nonce)
    expect(answer).toMatchObject({ version_info: 'v1', error_detail: null, type_url: CONFIG_TYPE })
    expect(requestsOf(source)).toBe(5)
    expect(source.problem()).toBeUndefined()
    expect([source.loads(), source.failures(), changes.length]).toEqual([1, 0, 1])
  })

  test('a change replaces all domains, and is logged with its size', async () => {
    const { plane, source, changes, lines } = await start()
    await plane.send('v1', [configOf('shop', 5), configOf('old', 1)])
    await plane.answerOf(await plane.send('v2', [configOf('shop', 7)]))
    expect(requestsOf(source)).toBe(7)
    expect([...(source.current()?.domains.keys() ?? [])]).toEqual(['shop'])
    expect(changes).toHaveLength(2)
    const loaded = lines.filter(({ msg }) => msg === 'envoy configuration loaded')
    expect(loaded[1]).toMatchObject({ version: 'v2', resources: 1, domains: 1, limits: 1 })
  })

  test('the same configuration again is acknowledged, and nothing is loaded', async () => {
    const { plane, source, changes } = await start()
    await plane.answerOf(await plane.send('v1', [configOf('shop', 5)]))
    const answer = await plane.answerOf(await plane.send('v2', [configOf('shop', 5)]))
    expect(answer).toMatchObject({ version_info: 'v2', error_detail: null })
    expect([source.loads(), changes.length]).toEqual([1, 1])
  })

  test('no resources mean no domains', async () => {
    const { plane, source } = await start()
    const answer = await plane.answerOf(await plane.send('v1', []))
    expect(answer).toMatchObject({ version_info: 'v1', error_detail: null })
    expect(source.current()?.domains.size).toBe(0)
  })

  test('headers of the configuration are sent with the stream', async () => {
    const { plane } = await start({ headers: new Map([['x-tenant', 'a']]) })
    await eventually(() => plane.headers[0]?.['x-tenant']).toBe('a')
  })
})

describe('a response with errors', () => {
  test('is refused with the reason and the last good version, which stays active', async () => {
    const { plane, source, lines } = await start()
    await plane.answerOf(await plane.send('v1', [configOf('shop', 5)]))
    const answer = await plane.answerOf(await plane.send('v2', [BAD]))
    expect(answer).toMatchObject({ version_info: 'v1', error_detail: { code: 3 } })
    expect(answer.error_detail?.message).toBe(BAD_MESSAGE)
    expect(requestsOf(source)).toBe(5)
    expect(source.problem()).toBe(BAD_MESSAGE)
    expect([source.loads(), source.failures()]).toEqual([1, 1])
    const failed = lines.find(({ level }) => level === 'error')
    expect(failed).toMatchObject({
      msg: 'envoy configuration invalid: the active one stays',
      problem: BAD_MESSAGE,
      server: `127.0.0.1:${plane.port}`,
    })
  })

  test('before any good one leaves nothing active, and has no version', async () => {
    const { plane, source, messages } = await start()
    const answer = await plane.answerOf(await plane.send('v1', [BAD]))
    expect(answer).toMatchObject({ version_info: '', error_detail: { code: 3 } })
    expect(source.current()).toBeUndefined()
    expect(messages()).toContain('envoy configuration invalid: none is active')
  })

  test('one bad resource refuses all of them, and every problem is counted', async () => {
    const { plane, source } = await start()
    const nonce = await plane.send('v1', [configOf('good', 1), BAD, { name: 'x', domain: '' }])
    const { error_detail: detail } = await plane.answerOf(nonce)
    expect(detail?.message).toBe(`${BAD_MESSAGE} (and 1 more)`)
    expect(source.current()).toBeUndefined()
  })

  test('a corrected one is active, and so is the last good one when it comes back', async () => {
    const { plane, source } = await start()
    await plane.answerOf(await plane.send('v1', [configOf('shop', 5)]))
    await plane.answerOf(await plane.send('v2', [BAD]))
    const back = await plane.answerOf(await plane.send('v3', [configOf('shop', 5)]))
    expect(back).toMatchObject({ version_info: 'v3', error_detail: null })
    expect(source.problem()).toBeUndefined()
    await plane.answerOf(await plane.send('v4', [BAD]))
    await plane.answerOf(await plane.send('v5', [configOf('shop', 6)]))
    expect(requestsOf(source)).toBe(6)
    expect(source.failures()).toBe(2)
  })

  test('a control plane that sends it again at once is refused again, after a pause', async () => {
    const { plane, source, messages } = await start({}, { refuseAgainMs: 20 })
    for (let index = 0; index < 4; index++) {
      const answer = await plane.answerOf(await plane.send('v1', [BAD]))
      expect(answer.error_detail?.message).toBe(BAD_MESSAGE)
    }
    expect(source.failures()).toBe(1)
    const failed = messages().filter((msg) => msg === 'envoy configuration invalid: none is active')
    expect(failed).toHaveLength(1)
  })

  test('two resources of one domain are an error, unless domains are merged', async () => {
    const two = [
      configOf('shop', 1, 'one'),
      { name: 'two', domain: 'shop', descriptors: [{ key: 'plan' }] },
    ]
    const apart = await start()
    const refused = await apart.plane.answerOf(await apart.plane.send('v1', two))
    expect(refused.error_detail?.message).toBe(
      'resource two: domain: "shop" is given twice. Accepted: each domain once; resource one has ' +
        'it too. With merged domains it may be in several',
    )
    const merged = await start({ mergeDomains: true })
    await merged.plane.answerOf(await merged.plane.send('v1', two))
    expect(requestsOf(merged.source)).toBe(1)
  })

  test('another type of response or of resource is refused, and bytes that are no resource', async () => {
    const { plane } = await start()
    const other = 'type.googleapis.com/envoy.config.cluster.v3.Cluster'
    const message = async (nonce: string) => (await plane.answerOf(nonce)).error_detail?.message
    expect(await message(await plane.respond({ typeUrl: other, resources: [] }))).toBe(
      `response: type_url: found ${other}. Accepted: ${CONFIG_TYPE}`,
    )
    const resource = { typeUrl: other, value: Buffer.alloc(0) }
    expect(await message(await plane.respond({ resources: [resource] }))).toBe(
      `resource 1: type_url: found ${other}. Accepted: ${CONFIG_TYPE}`,
    )
    const value = Buffer.from([0x0a, 0x7f])
    expect(await message(await plane.respond({ resources: [{ value }] }))).toBe(
      'resource 1: value: found a field exceeds its message. Accepted: a RateLimitConfig as protobuf',
    )
  })
})

describe('a stream that is lost', () => {
  test('leaves the configuration active, and the next one goes on', async () => {
    const { plane, source, messages } = await start()
    await plane.answerOf(await plane.send('v1', [configOf('shop', 5)]))
    plane.stop()
    await eventually(() => source.isConnected()).toBe(false)
    await eventually(messages).toContain('envoy configuration stream lost: the active one stays')
    expect(requestsOf(source)).toBe(5)
    await plane.start()
    await eventually(() => plane.streams.length).toBe(2)
    await eventually(() => plane.requests.length).toBe(1)
    await plane.answerOf(await plane.send('v2', [configOf('shop', 6)]))
    expect(requestsOf(source)).toBe(6)
    expect([source.isConnected(), source.problem()]).toEqual([true, undefined])
    expect(source.streamsLost()).toBeGreaterThan(0)
  })

  test('by a control plane that counts its versions anew does not leave an old configuration', async () => {
    const { plane, source } = await start()
    await plane.answerOf(await plane.send('1', [configOf('shop', 5)]))
    plane.stop()
    await plane.start()
    await eventually(() => plane.requests.length).toBe(1)
    await eventually(() => plane.streams.length).toBe(2)
    // With the old version it would be told that it has the newest one, and be sent nothing.
    expect(plane.requests[0]).toMatchObject({ version_info: '', response_nonce: '' })
    await plane.answerOf(await plane.send('1', [configOf('shop', 6)]))
    expect([requestsOf(source), source.loads()]).toEqual([6, 2])
  })

  test('and sends the same configuration again loads nothing', async () => {
    const { plane, source } = await start()
    await plane.answerOf(await plane.send('1', [configOf('shop', 5)]))
    plane.endStream()
    await eventually(() => plane.streams.length).toBe(2)
    const answer = await plane.answerOf(await plane.send('1', [configOf('shop', 5)]))
    expect(answer).toMatchObject({ version_info: '1', error_detail: null })
    expect(source.loads()).toBe(1)
  })

  test('by a server that is replaced is followed by another one', async () => {
    const { plane, source, lines } = await start()
    await plane.answerOf(await plane.send('v1', [configOf('shop', 5)]))
    plane.endStream()
    await eventually(() => plane.streams.length).toBe(2)
    const lost = lines.find(({ msg }) => String(msg).startsWith('envoy configuration stream lost'))
    expect(lost).toMatchObject({ reason: 'the control plane ended the stream', level: 'warn' })
    expect(requestsOf(source)).toBe(5)
  })

  test('bytes that are no response end the stream, and change nothing', async () => {
    const { plane, source } = await start()
    await plane.answerOf(await plane.send('v1', [configOf('shop', 5)]))
    await plane.sendBytes(Buffer.from('garbage'))
    await eventually(() => plane.streams.length).toBe(2)
    expect(source.problem()).toContain('found no DiscoveryResponse')
    expect([requestsOf(source), source.failures()]).toEqual([5, 1])
    await plane.answerOf(await plane.send('v2', [configOf('shop', 6)]))
    expect([requestsOf(source), source.problem()]).toEqual([6, undefined])
  })

  test('a response above the bound ends the stream, and says so', async () => {
    const { plane, source } = await start({ maxMessageBytes: 1024 })
    await plane.answerOf(await plane.send('v1', [configOf('shop', 5)]))
    await plane.send('v2', [configOf('x'.repeat(2000), 1)])
    await eventually(() => plane.streams.length).toBe(2)
    expect(source.problem()).toContain('RESOURCE_EXHAUSTED')
    expect(requestsOf(source)).toBe(5)
  })
})

describe('a control plane that is not there', () => {
  test('is tried again until it is, with its address and the reason in the problem', async () => {
    const plane = await new TestControlPlane().start()
    plane.stop()
    const { source } = follow(plane.port)
    await eventually(() => source.streamsLost()).toBeGreaterThan(1)
    expect(source.problem()).toContain(`control plane 127.0.0.1:${plane.port}: UNAVAILABLE`)
    await plane.start()
    await plane.answerOf(await plane.send('v1', [configOf('shop', 5)]))
    expect(requestsOf(source)).toBe(5)
    expect(source.problem()).toBeUndefined()
  })

  test('a server that accepts connections and says nothing is given up', async () => {
    const port = await startSilent()
    const { source } = follow(port, {}, { connectMs: 50 })
    await eventually(() => source.problem()).toContain('no connection within 50 ms')
  })

  test('closing ends an attempt that is under way, and a pause', async () => {
    const silent = follow(await startSilent())
    await silent.source.close()
    const plane = await new TestControlPlane().start()
    plane.stop()
    const waiting = follow(plane.port, { backoff: { firstMs: 3_600_000, mostMs: 3_600_000 } })
    await eventually(() => waiting.source.streamsLost()).toBe(1)
    await waiting.source.close()
    expect(waiting.source.isConnected()).toBe(false)
  })

  test('files of TLS that cannot be read are a problem, and the next attempt reads again', async () => {
    const tls = { ca: '/nowhere/ca.crt', cert: undefined, key: undefined, servername: undefined }
    const { source } = follow(1, { tls })
    await eventually(() => source.problem()).toContain('/nowhere/ca.crt')
    await eventually(() => source.streamsLost()).toBeGreaterThan(1)
  })
})

/** Accepts connections, and answers nothing. */
async function startSilent(): Promise<number> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closeAfterTest(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

test('pauses double up to the longest, and at least half of each is kept', () => {
  const backoff = { firstMs: 1000, mostMs: 60_000 }
  expect([0, 1, 5, 6, 1000].map((failures) => retryAfterMs(backoff, failures, 1))).toEqual([
    1000, 2000, 32_000, 60_000, 60_000,
  ])
  expect(retryAfterMs(backoff, 0, 0)).toBe(500)
})
