/** Encodes replies of the Redis protocol (RESP2), as a server of it sends them. */
import type { RedisReply } from '../connection/driver.js'

const END = Buffer.from('\r\n')
const NULL = Buffer.from('$-1\r\n')

/** An error's message begins with its code, such as `ERR` or `NOSCRIPT`. */
export function encodeReply(reply: RedisReply | Error): Buffer {
  const chunks: Uint8Array[] = []
  append(chunks, reply)
  return chunks.length === 1 ? Buffer.from(chunks[0] ?? NULL) : Buffer.concat(chunks)
}

function append(chunks: Uint8Array[], reply: RedisReply | Error): void {
  if (reply === null) chunks.push(NULL)
  else if (typeof reply === 'number') chunks.push(Buffer.from(`:${reply}\r\n`))
  else if (reply instanceof Uint8Array) {
    chunks.push(Buffer.from(`$${reply.length}\r\n`), reply, END)
  } else if (reply instanceof Error) {
    chunks.push(Buffer.from(`-${reply.message.replaceAll(/[\r\n]+/g, ' ')}\r\n`))
  } else {
    chunks.push(Buffer.from(`*${reply.length}\r\n`))
    for (const each of reply) append(chunks, each)
  }
}
