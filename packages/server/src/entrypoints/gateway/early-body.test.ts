import { createHash, randomBytes } from 'node:crypto'
import type { RequestListener } from 'node:http'
import { connect } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { BodyMemory } from './body-memory.js'
import { EarlyBody } from './early-body.js'
import { closeReleased, type Front, sendRequest, startFront } from './forward.test-helper.js'

const SOON = { timeout: 20_000, interval: 10 }
const EARLY_BYTES = 100_000

let front: Front | undefined
afterEach(async () => {
  const closing = front
  front = undefined
  await closeReleased(closing)
})

const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

/** Answers with the hash of the body, and how it was framed. */
const echo: RequestListener = (request, response) => {
  const hash = createHash('sha256')
  request.on('data', (bytes: Buffer) => hash.update(bytes))
  request.on('end', () => {
    const { 'content-length': length } = request.headers
    response.end(JSON.stringify({ hash: hash.digest('hex'), length }))
  })
}

async function start(more = {}) {
  const bodies: (EarlyBody | string)[] = []
  const onBody = (body: EarlyBody | string) => bodies.push(body)
  front = await startFront(echo, { earlyBytes: EARLY_BYTES, onBody, ...more })
  return { port: front.port, bodies, front }
}

describe('a body that is read before its call is decided', () => {
  test.each([
    ['nothing', 0],
    ['a small body', 1000],
    ['a body of the size of small ones', 16 * 1024],
    ['a larger body', 50_000],
    ['a body of exactly the bound', EARLY_BYTES],
    ['a body beyond the bound', EARLY_BYTES + 1],
    ['a body far beyond the bound', 3_000_000],
  ])('is forwarded byte for byte: %s', async (_name, length) => {
    const { port, bodies } = await start()
    const body = randomBytes(length)
    for (const headers of [{ 'content-length': length }, { 'transfer-encoding': 'chunked' }]) {
      const answer = await sendRequest(port, { method: 'POST', headers }, body)
      expect(JSON.parse(answer.body.toString())).toMatchObject({ hash: hashOf(body) })
    }
    expect(bodies.map((each) => each instanceof EarlyBody && each.size)).toEqual([length, Infinity])
  })

  test('is known whole up to the bound, and not at all beyond it', async () => {
    const seen: (number | undefined)[] = []
    const onBody = (body: EarlyBody | string) =>
      seen.push(body instanceof EarlyBody ? body.whole()?.length : -1)
    const { port } = await start({ onBody })
    for (const length of [0, 10, EARLY_BYTES, EARLY_BYTES + 1]) {
      await sendRequest(port, { method: 'POST' }, randomBytes(length))
    }
    expect(seen).toEqual([0, 10, EARLY_BYTES, undefined])
  })

  test('is streamed unread while the memory for bodies is used up', async () => {
    const { port, bodies, front: opened } = await start()
    const { gathered } = opened
    const all = 32 * 1024 * 1024
    expect(gathered.reserve(all)).toBe(true)
    const body = randomBytes(50_000)
    const answer = await sendRequest(port, { method: 'POST' }, body)
    gathered.release(all)
    expect(JSON.parse(answer.body.toString())).toMatchObject({ hash: hashOf(body) })
    const [early] = bodies
    expect(early instanceof EarlyBody && early.whole()).toBeUndefined()
  })

  test.each([
    ['goes away', 'gone', true],
    ['sends nothing more', 'slow', false],
  ])('frees its memory if the client %s', async (_name, reason, isGone) => {
    const { port, bodies, front: opened } = await start({ timeouts: { stallMs: 200 } })
    const client = connect(port, '127.0.0.1')
    client.on('error', () => {})
    client.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\nbegun')
    await vi.waitUntil(() => opened.gathered.used() > 0, SOON)
    if (isGone) client.destroy()
    await vi.waitUntil(() => bodies.length > 0, SOON)
    expect([bodies, opened.gathered.used()]).toEqual([[reason], 0])
    client.destroy()
  })

  test('frees its memory if the call is not forwarded', async () => {
    const bodyMemory = new BodyMemory()
    let used = 0
    const onBody = (body: EarlyBody | string) => {
      if (!(body instanceof EarlyBody)) return
      used = front?.gathered.used() ?? 0
      body.discard()
      expect(front?.gathered.used()).toBe(0)
    }
    const { port } = await start({ onBody })
    // The helper forwards what is left of it: nothing, as the body was dropped.
    const client = connect(port, '127.0.0.1')
    client.on('error', () => {})
    client.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nwhole')
    await vi.waitUntil(() => used > 0, SOON)
    expect([used, bodyMemory.used()]).toEqual([5, 0])
    client.destroy()
  })
})
