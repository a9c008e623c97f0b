/** The echo upstream of `npm start`: it responds with the request that it received. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Echo {
  readonly origin: string
  close(): Promise<void>
}

/** Headers that the response leaves out, since they contain secrets. */
const HIDDEN: ReadonlySet<string> = new Set(['authorization', 'cookie', 'x-api-key'])

/** `exclusive`: the port is not shared with other workers. */
export async function startEcho({ exclusive = false } = {}): Promise<Echo> {
  const server = createServer((request, response) => {
    let bytes = 0
    request.on('data', (chunk: Buffer) => (bytes += chunk.length))
    request.on('end', () => {
      const headers = Object.fromEntries(
        Object.entries(request.headers).filter(([name]) => !HIDDEN.has(name)),
      )
      const { method, url: path } = request
      const body = JSON.stringify({ from: 'sluice echo', method, path, headers, bytes })
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(`${body}\n`)
    })
  })
  await new Promise<void>((resolve) =>
    server.listen({ port: 0, host: '127.0.0.1', exclusive }, resolve),
  )
  const { port } = server.address() as AddressInfo
  return { origin: `http://127.0.0.1:${port}`, close: () => closeServer(server) }
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
