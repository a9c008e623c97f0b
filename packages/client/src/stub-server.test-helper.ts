/** A server with scripted responses, which records its requests. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach } from 'vitest'

interface ReceivedRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

export interface StubAnswer {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** An object is sent as JSON. `drop`: the connection is closed instead. */
  readonly body?: unknown
  readonly drop?: boolean
}

const running: { close(): Promise<void> }[] = []

export function closeAfterTests(): void {
  afterEach(async () => {
    await Promise.all(running.splice(0).map((server) => server.close()))
  })
}

/** Answers with these in turn, and then repeats the last one. */
export async function startServer(...answers: readonly StubAnswer[]) {
  const requests: ReceivedRequest[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const answer = answers[Math.min(requests.length, answers.length - 1)] ?? {}
      const { method = '', url = '', headers } = request
      requests.push({ method, url, headers, body: Buffer.concat(chunks).toString('utf8') })
      if (answer.drop === true) return void request.socket.destroy()
      const isText = typeof answer.body === 'string'
      const text = isText ? String(answer.body) : JSON.stringify(answer.body ?? {})
      const type = isText ? 'text/plain' : 'application/json'
      response.writeHead(answer.status ?? 200, { 'content-type': type, ...answer.headers })
      response.end(text)
    })
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  running.push({ close })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, requests, close }
}
