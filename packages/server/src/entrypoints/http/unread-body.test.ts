import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { limitUnreadBody } from './unread-body.js'

/** More than an unread connection buffers, and less than its sender holds. */
const ANSWER = Buffer.alloc(1_500_000, 'a')
const BODY_LENGTH = 500_000_000
const SOON = { timeout: 20_000 }

let server: Server
let accepted: Socket | undefined
let client: Socket

beforeEach(async () => {
  accepted = undefined
  server = createServer((request, response) => {
    accepted = request.socket
    limitUnreadBody(request, response)
    response.writeHead(401, { 'content-length': ANSWER.length }).end(ANSWER)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  client.on('error', () => {})
})

afterEach(async () => {
  client.destroy()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

/** Sends as much as the socket accepts. */
function keepSending(socket: Socket, connection: string): void {
  const piece = Buffer.alloc(64 * 1024)
  socket.write(
    `POST / HTTP/1.1\r\nHost: a\r\nConnection: ${connection}\r\nContent-Length: ${BODY_LENGTH}\r\n\r\n`,
  )
  const send = () => {
    while (!socket.destroyed && socket.write(piece));
  }
  socket.on('drain', send)
  send()
}

describe.each(['keep-alive', 'close'])('a client with Connection: %s', (connection) => {
  test('that keeps sending, and reads its response late, receives all of it', async () => {
    let received = 0
    client.on('data', (chunk: Buffer) => (received += chunk.length))
    client.pause()
    keepSending(client, connection)
    await vi.waitUntil(() => accepted !== undefined, SOON)
    // Longer than it takes to detect the excess.
    await sleep(300)
    client.resume()
    await vi.waitUntil(() => received > ANSWER.length, SOON)
  })

  test('that keeps sending is not read indefinitely: the connection ends', async () => {
    client.resume()
    keepSending(client, connection)
    await vi.waitUntil(() => accepted?.destroyed === true, SOON)
    expect(accepted?.bytesRead).toBeLessThan(BODY_LENGTH)
  })
})
