/** A server in Sluice's place, for what a real Sluice cannot be made to do. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface StandIn {
  readonly port: number
  connections(): number
  questions(): number
  close(): Promise<void>
}

export async function startStandIn(answer: (response: ServerResponse) => void): Promise<StandIn> {
  let connections = 0
  let questions = 0
  const server = createServer((_, response) => {
    questions++
    answer(response)
  })
  server.on('connection', () => {
    connections++
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    questions: () => questions,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
