import type { RequestListener } from 'node:http'
import { connect } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { AnswerEnd, ExchangeTap, UpstreamFailure } from './forward.js'
import { type Front, sendRequest, startFront } from './forward.test-helper.js'

const SOON = { timeout: 20_000, interval: 10 }

let front: Front | undefined
afterEach(async () => {
  await front?.close()
  front = undefined
})

/** Records what it sees, and ends an answer when it is told to. */
class RecordingTap implements ExchangeTap {
  readonly seen: unknown[] = []
  bytes = ''
  end: (bytes: Buffer) => AnswerEnd | undefined = () => undefined

  onRequestSent(): void {
    this.seen.push('sent')
  }

  onHead(status: number): void {
    this.seen.push(status)
  }

  onData(bytes: Buffer): AnswerEnd | undefined {
    this.bytes += bytes.toString()
    return this.end(bytes)
  }

  onEnd(failure: UpstreamFailure | undefined): void {
    this.seen.push(failure?.code ?? 'end')
  }
}

async function start(handler: RequestListener, more = {}) {
  const tap = new RecordingTap()
  front = await startFront(handler, { tap, ...more })
  return { tap, front }
}

describe('the tap of an exchange', () => {
  test('sees the request leave, the head, all bytes and the end', async () => {
    const {
      tap,
      front: { port },
    } = await start((request, response) => {
      request.resume().on('end', () => response.writeHead(201).end('answer'))
    })
    const { body } = await sendRequest(port, { method: 'POST' }, 'question')
    expect(body.toString()).toBe('answer')
    expect([tap.seen, tap.bytes]).toEqual([['sent', 201, 'end'], 'answer'])
  })

  test('sees only the end of a call that no connection could be had for', async () => {
    const dispatch = () => true
    const {
      tap,
      front: { port },
    } = await start(() => {}, { dispatch, timeouts: { queueMs: 50 } })
    expect((await sendRequest(port, { method: 'POST' }, 'question')).status).toBe(503)
    expect(tap.seen).toEqual(['QUEUE_TIMEOUT'])
  })

  test('sees the failure of an upstream that does not answer', async () => {
    const {
      tap,
      front: { port },
    } = await start((request) => request.socket.destroy())
    expect((await sendRequest(port, {})).status).toBe(502)
    expect(tap.seen).toEqual(['sent', 'UND_ERR_SOCKET'])
  })

  test('sees the end of a call whose client left, without a failure', async () => {
    const {
      tap,
      front: { port },
    } = await start((_request, response) => response.write('begun'))
    const client = connect(port, '127.0.0.1')
    client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await vi.waitUntil(() => tap.bytes === 'begun', SOON)
    client.destroy()
    await vi.waitUntil(() => tap.seen.includes('end'), SOON)
    expect(tap.seen).toEqual(['sent', 200, 'end'])
  })

  test('ends an answer with last bytes of its own, and the connections with it', async () => {
    let hasClosed = false
    const {
      tap,
      front: { port },
    } = await start((request, response) => {
      request.socket.once('close', () => (hasClosed = true))
      response.write('one two')
    })
    tap.end = () => ({ bytes: 4, last: 'END' })
    const { body, isCut } = await sendRequest(port, {})
    expect([body.toString(), isCut]).toEqual(['one END', false])
    await vi.waitUntil(() => hasClosed && front?.inFlight() === 0, SOON)
    expect(tap.seen).toEqual(['sent', 200, 'end'])
  })

  test('breaks an answer off without last bytes', async () => {
    const {
      tap,
      front: { port },
    } = await start((_request, response) => response.write('one two'))
    let isFirst = true
    tap.end = () => {
      const end = isFirst ? undefined : { bytes: 0, last: undefined }
      isFirst = false
      return end
    }
    const { body, isCut } = await sendRequest(port, {}).catch(() => ({
      body: Buffer.of(),
      isCut: true,
    }))
    expect([body.toString(), isCut]).toEqual(['one two', true])
  })
})
