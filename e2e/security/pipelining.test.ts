/**
 * A blocked caller that pipelines and never reads, on as many connections as it likes. Loopback
 * addresses have no connection limit, so it stands for an attacker with many addresses.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { makeFolder, stopAll, waitFor } from '../process.test-helper.js'
import { type RunningServer, start } from '../serve.test-helper.js'

/** The heap limit of a process: less than half of what the connections requested at once. */
const HEAP_MB = 256
const CONNECTIONS = 1000
/** As many requests as fit in one read of 64 KiB. */
const REQUESTS_PER_READ = 1300
/** The most that a connection may cost: 32 requests in flight and two pending reads. */
const KB_PER_CONNECTION_MAX = 400

const BLOCKED = 'GET /blocked HTTP/1.1\r\nHost: sluice.example\r\n\r\n'
const SLOW = BLOCKED.replace('blocked', 'slow/')

const RULES = `
rules:
  - id: blocked
    match: { path: /blocked }
    by: ip
    limits: [{ algorithm: fixed-window, max: 1, window: 1h }]
`

const sockets = new Set<Socket>()
const upstreams: Server[] = []

afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  sockets.clear()
  await stopAll()
  for (const upstream of upstreams.splice(0)) {
    upstream.closeAllConnections()
    await new Promise((resolve) => upstream.close(resolve))
  }
})

/** Answers everything except requests below /slow. */
async function startUpstream(): Promise<string> {
  const upstream = createServer((request, response) => {
    if (request.url?.startsWith('/slow') !== true) response.end('served')
  })
  upstreams.push(upstream)
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`
}

async function startGateway(): Promise<RunningServer> {
  const folder = makeFolder()
  const origin = await startUpstream()
  writeFileSync(join(folder, 'rules.yaml'), RULES)
  // Calls below /slow wait for connections of their own, so that others do not have to.
  writeFileSync(
    join(folder, 'sluice.yaml'),
    `rules: rules.yaml
gateway:
  upstreams:
    - { prefix: /slow, url: "${origin}", connections: 1000 }
    - { prefix: /, url: "${origin}" }
  timeouts: { headers: 1m, response: 5m, stall: 1s }
`,
  )
  const running = await start({ NODE_OPTIONS: `--max-old-space-size=${HEAP_MB}` }, folder)
  // The one call that the rule admits.
  expect((await fetch(`${running.gateway}/blocked`)).status).toBe(200)
  return running
}

/** Opens a connection that sends these bytes and reads nothing. */
function attack({ gateway }: RunningServer, bytes: Buffer): Promise<Socket> {
  const socket = connect(Number(new URL(gateway).port), '127.0.0.1')
  socket.pause()
  socket.on('error', () => undefined)
  sockets.add(socket)
  return new Promise((resolve) => {
    // The kernel has all of it, or the server reads no more for now.
    socket.once('connect', () => {
      socket.write(bytes)
      resolve(socket)
    })
    socket.once('close', () => resolve(socket))
  })
}

async function metric({ admin, folder }: RunningServer, name: string): Promise<number> {
  const token = readFileSync(join(folder, '.sluice', 'admin-token'), 'utf8').trim()
  const headers = { authorization: `Bearer ${token}` }
  const text = await (await fetch(`${admin}/metrics`, { headers })).text()
  const line = text.split('\n').find((each) => each.startsWith(`${name} `))
  if (line === undefined) throw new Error(`no ${name} in:\n${text}`)
  return Number(line.slice(name.length))
}

function residentKb({ program }: RunningServer): number {
  const status = readFileSync(`/proc/${program.pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1])
}

const refused = (running: RunningServer) =>
  metric(running, 'sluice_decisions_total{rule="blocked",outcome="refused",source="store"}')

test('a thousand connections that pipeline refused calls and never read leave memory flat and other callers served', async () => {
  const running = await startGateway()
  // No answer can be sent before the first one, which never comes.
  const bytes = Buffer.from(SLOW + BLOCKED.repeat(REQUESTS_PER_READ))
  const before = residentKb(running)
  for (let open = 1; open <= CONNECTIONS; open++) {
    await attack(running, bytes)
    if (open % 100 !== 0) continue
    const other = await fetch(`${running.gateway}/free`)
    expect([other.status, await other.text()]).toEqual([200, 'served'])
  }
  // Each has as much as it may have, and nothing beyond it is decided.
  const most = CONNECTIONS * 31
  await waitFor(running.program, async () => (await refused(running)) >= most)
  expect(await refused(running)).toBe(most)
  expect((await fetch(`${running.gateway}/free`)).status).toBe(200)
  const grown = residentKb(running) - before
  expect(grown / CONNECTIONS).toBeLessThan(KB_PER_CONNECTION_MAX)
  expect(running.program.hasEnded()).toBe(false)
})

test('connections whose clients read nothing of many refusals are closed after the stall timeout', async () => {
  const running = await startGateway()
  // More answers than the kernel buffers for one connection.
  const bytes = Buffer.from(BLOCKED.repeat(20_000))
  const attackers = await Promise.all(Array.from({ length: 4 }, () => attack(running, bytes)))
  const stalled = () => metric(running, 'sluice_connections_stalled_total{listener="gateway"}')
  await waitFor(running.program, async () => (await stalled()) === attackers.length)
  await waitFor(running.program, () =>
    running.program.output().includes('connections closed: the client stopped reading'),
  )
  expect((await fetch(`${running.gateway}/free`)).status).toBe(200)
})
