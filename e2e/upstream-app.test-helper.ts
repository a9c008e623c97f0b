/** The application behind a proxy: a real server that records its requests. */
import { createHash } from 'node:crypto'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

interface AppRequest {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  /** SHA-256 of the body, in hex. */
  readonly sha256: string
}

export interface App {
  readonly port: number
  /** The requests of this client, by the address that the proxy names. */
  requestsFrom(address: string): readonly AppRequest[]
  close(): Promise<void>
}

/** The answer that a client gets from the application itself, whatever proxy is before it. */
export const APP_BODY = 'the answer of the application'
export const APP_STATUS = 201

const HEADER_BYTES_MAX = 4 * 1024 * 1024

/** Gives the same answer to everything except `/dies`, where it closes the connection. */
export async function startApp(): Promise<App> {
  const all: AppRequest[] = []
  // It accepts larger headers than Sluice, so that it never rejects a call that Sluice accepts.
  const server = createServer({ maxHeaderSize: HEADER_BYTES_MAX }, (request, response) => {
    const hash = createHash('sha256')
    request.on('data', (chunk: Buffer) => void hash.update(chunk))
    request.on('end', () => {
      const { method = '', url = '', headers } = request
      all.push({ method, url, headers, sha256: hash.digest('hex') })
      if (url === '/dies') return void request.socket.destroy()
      // An application with its own rate limits sends headers of the same names.
      response.writeHead(APP_STATUS, { 'X-App': 'yes', RateLimit: '"app";r=1' })
      response.end(APP_BODY)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    requestsFrom: (address) => all.filter(({ headers }) => headers['x-forwarded-for'] === address),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
