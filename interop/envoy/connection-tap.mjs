/** Forwards connections to a port and keeps what each client sent. */
import { connect, createServer } from 'node:net'

export async function startTap(port) {
  const connections = []
  const sockets = new Set()
  const server = createServer({ noDelay: true }, (client) => {
    const chunks = []
    connections.push(chunks)
    const service = connect({ host: '127.0.0.1', port, noDelay: true })
    client.on('data', (chunk) => chunks.push(chunk))
    client.pipe(service).pipe(client)
    for (const socket of [client, service]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        service.destroy()
      })
    }
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: server.address().port,
    connections,
    stop: () => {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
