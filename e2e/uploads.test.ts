/** Uploads through a real gateway: long ones are answered, and slow ones delay no other call. */
import { writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { makeFolder, startProgram, stopAll, waitFor } from './process.test-helper.js'
import { start } from './serve.test-helper.js'

const UPSTREAM = fileURLToPath(new URL('./upload-upstream.fixture.mjs', import.meta.url))
const SOON = { timeout: 30_000, interval: 20 }
const CONNECTIONS = 8
const TRICKLERS = 10
const VICTIM_CALLS = 30
const VICTIM_EVERY_MS = 50
/** Tolerance for a busy machine; calls that wait for a slow upload take thousands. */
const P50_RATIO_MAX = 50

const sockets = new Set<Socket>()
afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  sockets.clear()
  await stopAll()
})

interface ReceivedCall {
  readonly method: string
  readonly path: string
  readonly bytes: number
  readonly isWhole: boolean
}

async function startBoth(timeouts = '{}') {
  const folder = makeFolder()
  const program = startProgram(process.execPath, [UPSTREAM], { cwd: folder })
  await waitFor(program, () => program.output().includes('\n'))
  const upstream = program.output().trim()
  writeFileSync(join(folder, 'rules.yaml'), 'rules: [{ id: all, limits: ["100000/second"] }]')
  writeFileSync(
    join(folder, 'sluice.yaml'),
    `rules: rules.yaml
gateway:
  upstreams: [{ url: "${upstream}", connections: ${CONNECTIONS} }]
  timeouts: ${timeouts}
`,
  )
  const { gateway, admin } = await start({}, folder)
  return {
    gateway,
    seen: async () => {
      const record = (await (await fetch(`${upstream}/record`)).json()) as { seen: ReceivedCall[] }
      return record.seen
    },
    slowUploads: async () => {
      const text = await (await fetch(`${admin}/metrics`)).text()
      return Number(/^sluice_slow_uploads_total (\d+)$/m.exec(text)?.[1])
    },
  }
}

interface Client {
  readonly socket: Socket
  readonly text: () => string
}

function send(gateway: string, bytes: string): Client {
  const socket = connect(Number(new URL(gateway).port), '127.0.0.1')
  sockets.add(socket)
  let text = ''
  socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
  socket.on('error', () => {})
  socket.write(bytes)
  return { socket, text: () => text }
}

const post = (path: string, framing: string) =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\n${framing}\r\n\r\n`

/** Sends 300,000 bytes in three seconds and returns the answer. */
async function uploadSlowly(gateway: string, framing: string): Promise<string> {
  const client = send(gateway, post('/long', framing))
  const isChunked = framing.startsWith('Transfer')
  for (let sent = 0; sent < 30; sent++) {
    await sleep(100)
    client.socket.write(isChunked ? '2710\r\n' : '')
    client.socket.write(Buffer.alloc(10_000))
    client.socket.write(isChunked ? '\r\n' : '')
  }
  if (isChunked) client.socket.write('0\r\n\r\n')
  await vi.waitUntil(() => /\r\n\r\n[^]*\w/.test(client.text()), SOON)
  return client.text()
}

test('an upload of three seconds with a response timeout of one is answered 200', async () => {
  const { gateway } = await startBoth('{ response: 1s }')
  const since = performance.now()
  const answers = await Promise.all([
    uploadSlowly(gateway, 'Content-Length: 300000'),
    uploadSlowly(gateway, 'Transfer-Encoding: chunked'),
  ])
  expect(performance.now() - since).toBeGreaterThan(2900)
  for (const text of answers) expect(text).toMatch(/^HTTP\/1.1 200 [^]*bytes: 300000/)
  // A request with Expect is answered with 100 before its body is buffered.
  const client = send(gateway, post('/asked', 'Content-Length: 5\r\nExpect: 100-continue'))
  await vi.waitUntil(() => client.text() === 'HTTP/1.1 100 Continue\r\n\r\n', SOON)
  client.socket.write('hello')
  await vi.waitUntil(() => client.text().includes('bytes: 5'), SOON)
})

/**
 * Starts a GET every 50 ms, whatever happened to those before: few enough that all of them could
 * wait for a connection at once. Returns their p50 and how many were answered.
 */
async function victims(gateway: string): Promise<{ readonly p50: number; readonly ok: number }> {
  const tookMs: number[] = []
  let ok = 0
  const call = async (index: number) => {
    await sleep(index * VICTIM_EVERY_MS)
    const since = performance.now()
    const answer = await fetch(`${gateway}/victim`)
    await answer.text()
    tookMs.push(performance.now() - since)
    if (answer.status === 200) ok++
  }
  await Promise.all(Array.from({ length: VICTIM_CALLS }, (_, index) => call(index)))
  const p50 = tookMs.toSorted((a, b) => a - b)[tookMs.length >> 1] ?? Number.NaN
  return { p50, ok }
}

const SMALL = { framing: 'Content-Length: 10000', byte: 'x' }
const LARGE = { framing: 'Content-Length: 1000000', byte: 'x' }
const CHUNKED = { framing: 'Transfer-Encoding: chunked', byte: '1\r\nx\r\n' }

describe('ten slow POSTs on eight connections', () => {
  test.each([
    // Buffered first, so that the upstream receives nothing of them.
    ['of known small length', [SMALL], 0],
    // Streamed, until half of the connections are taken.
    ['in chunks or of known large length', [CHUNKED, LARGE], CONNECTIONS / 2],
  ])('leave every other call its connection when they are %s', async (name, kinds, most) => {
    const { gateway, seen, slowUploads } = await startBoth()
    // The first calls of a process are slow.
    await victims(gateway)
    const before = await victims(gateway)
    const tricklers = Array.from({ length: TRICKLERS }, (_, i) => {
      const { framing, byte } = kinds[i % kinds.length] ?? SMALL
      return { ...send(gateway, post('/trickle', framing)), byte }
    })
    const trickle = setInterval(() => {
      for (const { socket, text, byte } of tricklers) if (text() === '') socket.write(byte)
    }, 100)
    try {
      await sleep(500)
      const during = await victims(gateway)
      const ratio = during.p50 / before.p50
      process.stdout.write(
        `trickling POSTs ${name}: p50 of others ${before.p50.toFixed(2)} ms before, ${during.p50.toFixed(2)} ms during, ratio ${ratio.toFixed(2)}\n`,
      )
      expect([before.ok, during.ok]).toEqual([VICTIM_CALLS, VICTIM_CALLS])
      expect(ratio).toBeLessThan(P50_RATIO_MAX)
      // Ten bytes per second are too few.
      await vi.waitUntil(() => tricklers.every(({ text }) => text() !== ''), SOON)
      for (const { text } of tricklers) expect(text()).toMatch(/^HTTP\/1.1 408 /)
      const trickled = (await seen()).filter(({ path }) => path === '/trickle')
      expect(trickled.length).toBeLessThanOrEqual(most)
      expect(trickled.filter(({ isWhole }) => isWhole)).toEqual([])
      expect(await slowUploads()).toBe(TRICKLERS)
    } finally {
      clearInterval(trickle)
    }
  })
})
