/**
 * Bounds how much of a body is read after its call was answered. Node reads and drops the rest, so
 * that the connection can be reused and the client receives the response; here that has a limit,
 * because a refused call must not cost more than an admitted one.
 *
 * The connection is closed late. Closing a connection with unread bytes takes from the client the
 * part of its response that it has not read. So a large rest is left unread for a while, and so is
 * that of a connection that ends with this response, which Node would close at once.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'

const BYTES_MAX = 1024 * 1024
const MS_MAX = 2000
const POLL_EVERY_MS = 50

export function limitUnreadBody(request: IncomingMessage, response: ServerResponse): void {
  const { headers } = request
  if (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined) return
  // Runs before Node's own listener, which closes the connection if the response is its last.
  response.prependOnceListener('finish', () => {
    if (!request.complete) linger(request)
  })
}

function linger(request: IncomingMessage): void {
  const { socket } = request
  const before = socket.bytesRead
  let isLast = false
  let polls = 0
  socket.destroySoon = () => {
    isLast = true
    socket.end()
  }
  const timer = setInterval(() => {
    if (request.complete && !isLast) return end()
    if (request.complete || ++polls * POLL_EVERY_MS >= MS_MAX) socket.destroy()
    else if (socket.bytesRead - before >= BYTES_MAX) socket.pause()
  }, POLL_EVERY_MS)
  const end = () => {
    clearInterval(timer)
    socket.off('close', end)
    Reflect.deleteProperty(socket, 'destroySoon')
  }
  socket.once('close', end)
}
