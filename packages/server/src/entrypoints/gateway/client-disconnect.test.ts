import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { type Decision, UNMATCHED } from '@sluice/core'
import { expect, test, vi } from 'vitest'
import { parseConfig } from '../../config/parse-config.js'
import { createMemoryLog } from '../../observability/log/memory-log.test-helper.js'
import { Gateway, type GatewayDeps } from './gateway.js'
import { Upgrades } from './upgrade.js'

const UPGRADE = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
]

/** A gateway whose store answers when the test resolves it. */
function setUp() {
  const { config } = parseConfig('', { file: 'f', env: {}, readFile: () => '' })
  if (config === undefined) throw new Error('no configuration')
  let answer: (decision: Decision) => void = () => {}
  const refunded: string[] = []
  const gateway = new Gateway({
    config,
    decider: {
      check: () => new Promise<Decision>((resolve) => (answer = resolve)),
      limiter: { refund: async (receipt: string) => void refunded.push(receipt) },
    },
    identifier: { identify: () => ({ attributes: {}, problem: undefined }) },
    upstreams: { find: () => ({}) },
    clock: { now: () => 0 },
    responseClock: { now: () => 0 },
    random: () => 0,
    log: createMemoryLog().log,
    onUpstreamFailure: () => {},
    onSlowUpload: () => {},
  } as unknown as GatewayDeps)
  return { gateway, refunded, answer: (decision: Decision) => answer(decision) }
}

test.each([
  ['a request', []],
  ['an upgrade', UPGRADE],
])(
  'the caller of %s that disconnects during its decision frees its place in the queue',
  async (_, headers) => {
    const { gateway, refunded, answer } = setUp()
    const upgrades = new Upgrades(gateway)
    const server = createServer()
    const handled = new Promise<{ request: IncomingMessage; end: Promise<void> }>((resolve) => {
      server.on('request', (request, response) =>
        resolve({ request, end: gateway.handle(request, response) }),
      )
      server.on('upgrade', (request, socket, head) =>
        resolve({ request, end: upgrades.handle(request, socket, head) }),
      )
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
    client.write(['GET /a HTTP/1.1', 'Host: a', ...headers, '', ''].join('\r\n'))
    const { request, end } = await handled
    client.destroy()
    await vi.waitUntil(() => request.socket.destroyed, { timeout: 10_000 })
    answer({ ...UNMATCHED, delayMs: 1000, receipt: 'its place' })
    await end
    expect(refunded).toEqual(['its place'])
    server.close()
  },
)
