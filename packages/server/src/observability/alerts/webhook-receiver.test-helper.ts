/** A real receiver of alerts, which responds as a test configures it. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import type { Alert } from './alert.js'

interface ReceivedRequest {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly body: {
    readonly version: number
    readonly event: string
    readonly state: string
    readonly alert: Alert
    readonly source: string
    readonly node: string
    readonly host: string
  }
}

export interface Receiver extends AsyncDisposable {
  readonly url: string
  readonly received: ReceivedRequest[]
  /** Returns a status, or does nothing and keeps the caller waiting. */
  answer: (received: ReceivedRequest, response: ServerResponse) => number | undefined
  /** Resolves when this many requests have arrived. */
  got(count: number): Promise<void>
}

export async function startReceiver(): Promise<Receiver> {
  const server = createServer((incoming, response) => {
    const pieces: Buffer[] = []
    incoming.on('data', (piece: Buffer) => pieces.push(piece))
    incoming.on('end', () => {
      const text = Buffer.concat(pieces).toString('utf8')
      const { method = '', url = '', headers } = incoming
      const body = JSON.parse(text) as ReceivedRequest['body']
      const received = { method, url, headers, text, body }
      receiver.received.push(received)
      const status = receiver.answer(received, response)
      if (status !== undefined) response.writeHead(status).end('thank you')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}/hook/secret-path?token=secret-query`,
    received: [],
    answer: () => 204,
    async got(count) {
      while (receiver.received.length < count) await setImmediate()
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return receiver
}
