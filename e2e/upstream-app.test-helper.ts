/** The application behind a proxy: a real server that remembers what it was asked. */
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
  /** What came from this client, as the proxy names it. */
  requestsFrom(address: string): readonly AppRequest[]
  close(): Promise<void>
}

/** What a client gets from the application itself, whatever stands before it. */
export const APP_BODY = 'the answer of the application'
export const APP_STATUS = 201

const HEADER_BYTES_MAX = 4 * 1024 * 1024

/** Answers everything alike, but for `/dies`, where it breaks off the connection. */
export async function startApp(): Promise<App> {
  const all: AppRequest[] = []
  // It takes larger headers than Sluice does: a call must not be stopped by it alone.
  const server = createServer({ maxHeaderSize: HEADER_BYTES_MAX }, (request, response) => {
    const hash = createHash('sha256')
    request.on('data', (chunk: Buffer) => void hash.update(chunk))
    request.on('end', () => {
      const { method = '', url = '', headers } = request
      all.push({ method, url, headers, sha256: hash.digest('hex') })
      if (url === '/dies') return void request.socket.destroy()
      // An application that limits by itself says so under the same names.
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
