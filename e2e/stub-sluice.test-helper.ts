/** A server in place of Sluice, for behaviour that a real Sluice cannot be made to show. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface StubSluice {
  readonly port: number
  connections(): number
  requests(): number
  close(): Promise<void>
}

export async function startStubSluice(
  answer: (response: ServerResponse) => void,
): Promise<StubSluice> {
  let connections = 0
  let requests = 0
  const server = createServer((_, response) => {
    requests++
    answer(response)
  })
  server.on('connection', () => {
    connections++
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    requests: () => requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
