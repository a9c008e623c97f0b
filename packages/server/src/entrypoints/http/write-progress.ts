/**
 * How far a client has taken what was written to its socket: a text that changes whenever the
 * kernel takes more of it.
 *
 * `bytesWritten` alone does not say that, because it counts what is still queued. Less
 * `writableLength` it counts the writes that are done, which stands still during one large write:
 * an answer of 10 MB that a slow client reads for minutes. On plain TCP the queue of the handle
 * shows that too. Node does not document that property; without it, and with TLS, whose writes here
 * are at most 64 KiB long, progress is seen write by write.
 */
import type { Socket } from 'node:net'

export function writeProgress(socket: Socket): string {
  const done = socket.bytesWritten - socket.writableLength
  const handle: unknown = Reflect.get(socket, '_handle')
  if (typeof handle !== 'object' || handle === null) return `${done}`
  return `${done}/${String(Reflect.get(handle, 'writeQueueSize'))}`
}
