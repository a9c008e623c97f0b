/**
 * Measures how far a client has read what was written to its socket: a text that changes whenever
 * the kernel accepts more of it.
 *
 * `bytesWritten` alone is not enough, because it counts what is still queued. Minus
 * `writableLength` it counts the finished writes, which does not change during one large write,
 * such as a response of 10 MB that a slow client reads for minutes. On plain TCP the queue of the
 * handle shows that too. Node does not document that property; without it, and with TLS, whose
 * writes here are at most 64 KiB long, progress is measured write by write.
 */
import type { Socket } from 'node:net'

export function writeProgress(socket: Socket): string {
  const done = socket.bytesWritten - socket.writableLength
  const handle: unknown = Reflect.get(socket, '_handle')
  if (typeof handle !== 'object' || handle === null) return `${done}`
  return `${done}/${String(Reflect.get(handle, 'writeQueueSize'))}`
}
