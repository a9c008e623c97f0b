/**
 * Sends commands to Redis without a client library: tests of clients must not depend on one. Every
 * exchange has its own connection, so that it works after a restart of the server.
 */
import { connect } from 'node:net'

const ANSWER_MS_MAX = 10_000

/**
 * Sends all commands at once and returns their replies in order; an error reply is returned as an
 * Error in its place.
 */
export function exchange(port, commands, host = '127.0.0.1') {
  if (commands.length === 0) return Promise.resolve([])
  return new Promise((resolve, reject) => {
    const replies = []
    let rest = Buffer.alloc(0)
    const socket = connect({ port, host, noDelay: true })
    socket.setTimeout(ANSWER_MS_MAX, () => {
      socket.destroy(new Error(`Redis on ${host}:${port}: no answer in ${ANSWER_MS_MAX} ms`))
    })
    socket.once('error', reject)
    socket.once('close', () => {
      reject(new Error(`Redis on ${host}:${port}: the connection ended before the answer`))
    })
    socket.on('data', (chunk) => {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      try {
        rest = rest.subarray(readReplies(rest, replies))
      } catch (error) {
        socket.destroy(error)
      }
      if (replies.length < commands.length) return
      resolve(replies)
      socket.destroy()
    })
    socket.write(commands.map(encode).join(''))
  })
}

function encode(words) {
  const bulks = words.map((word) => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`)
  return `*${words.length}\r\n${bulks.join('')}`
}

/** Adds all complete replies, and returns where the last of them ends. */
function readReplies(bytes, replies) {
  let at = 0
  for (;;) {
    const read = readReply(bytes, at)
    if (read === undefined) return at
    replies.push(read.reply)
    at = read.end
  }
}

/** The reply that starts at an index, and its end; undefined while it is incomplete. */
function readReply(bytes, start) {
  const line = bytes.indexOf('\r\n', start)
  if (line === -1) return undefined
  const text = bytes.toString('utf8', start + 1, line)
  const end = line + 2
  switch (String.fromCharCode(bytes[start])) {
    case '+':
      return { reply: text, end }
    case '-':
      return { reply: new Error(text), end }
    case ':':
      return { reply: Number(text), end }
    case '$':
      return readBulk(bytes, end, Number(text))
    case '*':
      return readList(bytes, end, Number(text))
    default:
      throw new Error(`Not a reply of RESP2: ${bytes.toString('latin1', start, line)}`)
  }
}

function readBulk(bytes, start, length) {
  if (length === -1) return { reply: null, end: start }
  const end = start + length + 2
  return end > bytes.length ? undefined : { reply: bytes.toString('utf8', start, end - 2), end }
}

function readList(bytes, start, length) {
  if (length === -1) return { reply: null, end: start }
  const reply = []
  let end = start
  while (reply.length < length) {
    const item = readReply(bytes, end)
    if (item === undefined) return undefined
    reply.push(item.reply)
    end = item.end
  }
  return { reply, end }
}
