import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { createAdminClient, type EventView, type Fetch } from './index.js'

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

type Answer = (response: ServerResponse) => void

/** Answers with these in turn, and then repeats the last one. */
async function serve(...answers: readonly Answer[]) {
  const requests: { readonly url: string; readonly authorization: string | undefined }[] = []
  const server = createServer((request, response) => {
    const answer = answers[Math.min(requests.length, answers.length - 1)]
    requests.push({ url: request.url ?? '', authorization: request.headers.authorization })
    answer?.(response)
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  closing.push(
    () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  )
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests }
}

const stream =
  (text: string, isEnded: boolean): Answer =>
  (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
    response.write(text)
    if (isEnded) response.end()
  }

const refuse =
  (status: number): Answer =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/problem+json' })
    response.end(JSON.stringify({ error: 'unauthorized', detail: 'no', status, title: 'No' }))
  }

const rules = (version: number) => `event: rules\ndata: {"version":${version}}\n\n`

/** Follows until so many events arrived; waits are recorded and end at once. */
async function follow(url: string, count: number, fetch?: Fetch) {
  const lines: string[] = []
  const waits: number[] = []
  const ending = new AbortController()
  const wait = async (ms: number) => {
    waits.push(ms)
    if (waits.length >= 30) ending.abort()
  }
  const client = createAdminClient({ url, token: 't0', wait, fetch })
  let left = count
  const onEvent = ({ data }: EventView) => {
    lines.push(JSON.stringify(data))
    if (--left === 0) ending.abort()
  }
  const onState = (state: string) => void lines.push(state)
  const result = await client.events({ onEvent, onState, signal: ending.signal }).then(
    () => 'ended' as const,
    (error: unknown) => error,
  )
  return { lines, waits, result }
}

describe('following events', () => {
  test('reports each event, sends the token, and ends when it is stopped', async () => {
    const server = await serve(stream(`retry: 2000\n\n${rules(1)}${rules(2)}`, false))
    const { lines, waits, result } = await follow(server.url, 2)
    expect(lines).toEqual(['open', '{"version":1}', '{"version":2}'])
    expect([waits, result]).toEqual([[], 'ended'])
    expect(server.requests).toEqual([{ url: '/admin/v1/events', authorization: 'Bearer t0' }])
  })

  test('reconnects after the end of a stream, and reports the disconnect', async () => {
    const server = await serve(stream(rules(1), true), stream(rules(2), false))
    const { lines, result } = await follow(server.url, 2)
    expect(lines).toEqual(['open', '{"version":1}', 'lost', 'open', '{"version":2}'])
    expect(result).toBe('ended')
  })

  test('waits longer after each failure, up to ten seconds, with jitter', async () => {
    const server = await serve(refuse(503))
    const { lines, waits, result } = await follow(server.url, 1)
    expect(result).toBe('ended')
    expect(lines.every((line) => line === 'lost')).toBe(true)
    for (const [i, ms] of waits.entries()) {
      const most = Math.min(10_000, 500 * 2 ** (i + 1))
      expect(ms).toBeGreaterThanOrEqual(most / 2)
      expect(ms).toBeLessThanOrEqual(most)
    }
    expect(new Set(waits).size).toBe(waits.length)
  })

  test('waits half a second at most after a stream that was open', async () => {
    const failing = [refuse(503), refuse(429), stream(rules(1), true)]
    const server = await serve(...failing, stream(rules(2), false))
    const { waits } = await follow(server.url, 2)
    expect(waits).toHaveLength(3)
    expect(waits[2]).toBeLessThanOrEqual(500)
  })

  test.each([401, 403])('gives up on status %d, and reports why', async (status) => {
    const server = await serve(stream(rules(1), true), refuse(status))
    const { lines, result } = await follow(server.url, 2)
    expect(lines).toEqual(['open', '{"version":1}', 'lost'])
    expect(result).toMatchObject({ name: 'AdminError', status, code: 'unauthorized' })
  })

  test('retries if the server does not answer, or another program does', async () => {
    const page: Answer = (response) => response.end('<h1>hello</h1>')
    const drop: Answer = (response) => response.destroy()
    const server = await serve(drop, page, stream(rules(1), false))
    expect((await follow(server.url, 1)).lines).toEqual(['lost', 'lost', 'open', '{"version":1}'])
  })

  test('joins a character that was cut in two by chunks', async () => {
    const bytes = new TextEncoder().encode('event: rules\ndata: {"version":1,"by":"é😀"}\n\n')
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte))
      },
    })
    const headers = { 'content-type': 'text/event-stream' }
    const fetch: Fetch = async () => new Response(body, { headers })
    const { lines } = await follow('http://127.0.0.1:1', 1, fetch)
    expect(lines).toEqual(['open', '{"version":1,"by":"é😀"}'])
  })

  test('does not treat an error thrown by a listener as a lost connection', async () => {
    const server = await serve(stream(rules(1), false))
    const client = createAdminClient({ url: server.url })
    const onEvent = () => {
      throw new Error('a mistake of the page')
    }
    await expect(client.events({ onEvent })).rejects.toThrow('a mistake of the page')
  })

  test('sends no request if it was stopped before it started', async () => {
    const server = await serve(stream(rules(1), false))
    const client = createAdminClient({ url: server.url })
    await client.events({ onEvent: () => {}, signal: AbortSignal.abort() })
    expect(server.requests).toEqual([])
  })

  test('stops reading the body of a refusal that does not end', async () => {
    const piece = new Uint8Array(1024 * 1024).fill(120)
    let sent = 0
    const body = new ReadableStream({
      pull: (controller) => (++sent > 200 ? controller.close() : controller.enqueue(piece)),
    })
    const { result } = await follow('http://127.0.0.1:1', 1, async () => {
      return new Response(body, { status: 401 })
    })
    expect(result).toMatchObject({ status: 401 })
    expect(sent).toBeLessThan(100)
  })
})
