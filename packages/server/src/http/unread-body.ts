/**
 * A call that is answered before its body was read. Node reads and drops the rest, so that the
 * connection can be used again and the client sees the answer; here that has an end, because a
 * refused call must not cost more than an admitted one.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'

const BYTES_MAX = 1024 * 1024
const MS_MAX = 2000
const LOOK_EVERY_MS = 50

export function limitUnreadBody(request: IncomingMessage, response: ServerResponse): void {
  const { headers, socket } = request
  if (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined) return
  response.once('finish', () => {
    if (request.complete) return
    const before = socket.bytesRead
    let looks = 0
    const timer = setInterval(() => {
      if (request.complete) return end()
      if (++looks * LOOK_EVERY_MS < MS_MAX && socket.bytesRead - before < BYTES_MAX) return
      socket.destroy()
    }, LOOK_EVERY_MS)
    const end = () => {
      clearInterval(timer)
      socket.off('close', end)
    }
    socket.once('close', end)
  })
}
