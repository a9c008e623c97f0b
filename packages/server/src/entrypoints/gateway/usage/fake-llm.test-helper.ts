/**
 * A language model that answers with as many tokens as it is asked for, in both dialects. The text
 * has four bytes a token, so what is seen of it equals what it reports.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { brotliCompressSync, createGzip, gzipSync } from 'node:zlib'
import type { UsageDialect } from './dialects.js'
import { eventsOf } from './answers.test-helper.js'

/** What a request asks the model for, in its headers. */
export interface FakeAnswer {
  /** Tokens of input that the model reports. */
  readonly input?: number
  readonly output?: number
  readonly status?: number
  /** Whether a stream reports its usage. @default true */
  readonly usage?: boolean
  /** How many tokens come before the stream waits until the client goes away. */
  readonly hangAfter?: number
  /** Whether there is no answer at all. */
  readonly isSilent?: boolean
  readonly encoding?: 'gzip' | 'br' | 'unknown'
  /** Milliseconds between two tokens. */
  readonly everyMs?: number
}

export interface FakeLlm {
  readonly origin: string
  /** The bodies that arrived. */
  readonly bodies: Buffer[]
  /** Streams whose client went away before their end. */
  readonly cut: () => number
  close(): Promise<void>
}

export const PATHS: Readonly<Record<UsageDialect, string>> = {
  openai: '/v1/chat/completions',
  anthropic: '/v1/messages',
}

/** The header that carries a `FakeAnswer`. */
export const ANSWER_HEADER = 'x-fake-answer'

/** Three characters, four bytes. */
const WORD = 'wör'
const wordsOf = (count: number) => Array.from({ length: count }, () => WORD)

export async function startFakeLlm(): Promise<FakeLlm> {
  const bodies: Buffer[] = []
  let cut = 0
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      bodies.push(body)
      response.once('close', () => {
        if (!response.writableFinished) cut++
      })
      answer(request, response, body)
    })
  })
  return {
    origin: `http://127.0.0.1:${await listen(server)}`,
    bodies,
    cut: () => cut,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function answer(request: IncomingMessage, response: ServerResponse, body: Buffer): void {
  const asked = request.headers[ANSWER_HEADER]
  const wanted = JSON.parse(typeof asked === 'string' ? asked : '{}') as FakeAnswer
  const dialect = request.url === PATHS.anthropic ? 'anthropic' : 'openai'
  if (wanted.isSilent === true) return
  if (request.method !== 'POST') return void response.end('{"data":[]}')
  if (wanted.status !== undefined) {
    response.writeHead(wanted.status, { 'content-type': 'application/json' })
    return void response.end('{"error":{"message":"no"}}')
  }
  const { stream } = JSON.parse(body.toString()) as { readonly stream?: boolean }
  if (stream === true) return streamAnswer(response, dialect, wanted)
  sendAnswer(response, dialect, wanted)
}

function sendAnswer(response: ServerResponse, dialect: UsageDialect, wanted: FakeAnswer): void {
  const { input = 10, output = 5, encoding } = wanted
  const text = wordsOf(output).join('')
  const usage = usageOf(dialect, input, output)
  const message =
    dialect === 'openai'
      ? { choices: [{ message: { content: text } }], usage }
      : { content: [{ type: 'text', text }], usage }
  const json = Buffer.from(JSON.stringify(message))
  const bytes =
    { gzip: gzipSync, br: brotliCompressSync }[encoding as 'gzip' | 'br']?.(json) ?? json
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-length': bytes.length,
    ...(encoding !== undefined && { 'content-encoding': encoding }),
  })
  response.end(bytes)
}

function streamAnswer(response: ServerResponse, dialect: UsageDialect, wanted: FakeAnswer): void {
  const { hangAfter = Number.POSITIVE_INFINITY, encoding, everyMs = 0 } = wanted
  response.writeHead(200, {
    'content-type': 'text/event-stream',
    ...(encoding !== undefined && { 'content-encoding': encoding }),
  })
  const gzip = encoding === 'gzip' ? createGzip() : undefined
  gzip?.pipe(response)
  const write = (event: object) => {
    const out = gzip ?? response
    out.write(eventsOf([event]))
    gzip?.flush()
  }
  const events = eventsOfAnswer(dialect, wanted)
  let sent = 0
  const next = () => {
    const event = events.shift()
    if (event === undefined) {
      const last = dialect === 'openai' ? 'data: [DONE]\n\n' : ''
      return void (gzip ?? response).end(last)
    }
    // The first event is no token.
    if (sent > hangAfter) return
    write(event)
    sent++
    if (response.destroyed) return
    if (everyMs > 0) setTimeout(next, everyMs)
    else setImmediate(next)
  }
  next()
}

/** The first event, one for each token, and the last ones. */
function eventsOfAnswer(dialect: UsageDialect, wanted: FakeAnswer): object[] {
  const { input = 10, output = 5, usage = true } = wanted
  const words = wordsOf(output)
  if (dialect === 'openai') {
    const last = usage ? [{ choices: [], usage: usageOf('openai', input, output) }] : []
    const chunks = words.map((content) => ({ choices: [{ delta: { content } }], usage: null }))
    return [{ choices: [{ delta: { role: 'assistant', content: '' } }] }, ...chunks, ...last]
  }
  const start = { type: 'message_start', message: { usage: usageOf('anthropic', input, 1) } }
  const deltas = words.map((text) => ({ type: 'content_block_delta', delta: { text } }))
  const end = { type: 'message_delta', usage: { output_tokens: output } }
  return [start, ...deltas, ...(usage ? [end] : []), { type: 'message_stop' }]
}

function usageOf(dialect: UsageDialect, input: number, output: number): object {
  return dialect === 'openai'
    ? { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }
    : { input_tokens: input, output_tokens: output }
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}
