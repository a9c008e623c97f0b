/**
 * A server that speaks enough RESP to forward to a real Redis, and answers some commands itself,
 * with errors that a healthy Redis would not send.
 */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

const HOST = '127.0.0.1'

/** The encoded reply to send instead of that of Redis; undefined to forward the command. */
type Interject = (words: readonly string[]) => string | undefined

export interface RespShim {
  readonly url: string
  readonly address: string
  interject: Interject
  stop(): Promise<void>
}

export async function startRespShim(port: number): Promise<RespShim> {
  const sockets = new Set<Socket>()
  const listener = createServer({ noDelay: true }, (client) => {
    const server = connect({ port, host: HOST, noDelay: true })
    for (const socket of [client, server]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.once('close', () => {
        sockets.delete(socket)
        client.destroy()
        server.destroy()
      })
    }
    serve(client, server, (words) => shim.interject(words))
  })
  listener.listen(0, HOST)
  await once(listener, 'listening')
  const address = `${HOST}:${(listener.address() as AddressInfo).port}`
  const shim = {
    url: `redis://${address}`,
    address,
    interject: (): string | undefined => undefined,
    async stop() {
      const closed = once(listener, 'close')
      listener.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  } as RespShim
  return shim
}

/** Replies keep the order of the commands, from Redis or from the shim. */
function serve(client: Socket, server: Socket, interject: Interject): void {
  const replies: (Buffer | undefined)[] = []
  const waiting: number[] = []
  let first = 0
  const deliver = () => {
    while (replies.length > 0 && replies[0] !== undefined) {
      client.write(replies.shift() ?? '')
      first += 1
    }
  }
  const commands = new ReplySplitter((command) => {
    const own = interject(wordsOf(command))
    replies.push(own === undefined ? undefined : Buffer.from(own))
    if (own === undefined) {
      waiting.push(first + replies.length - 1)
      server.write(command)
    }
    deliver()
  })
  const answers = new ReplySplitter((reply) => {
    replies[(waiting.shift() ?? 0) - first] = reply
    deliver()
  })
  client.on('data', (bytes) => commands.add(bytes))
  server.on('data', (bytes) => answers.add(bytes))
}

/** Splits a stream of RESP2 into whole values. */
class ReplySplitter {
  readonly #found: (value: Buffer) => void
  #rest = Buffer.alloc(0)

  constructor(found: (value: Buffer) => void) {
    this.#found = found
  }

  add(bytes: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, bytes])
    for (let end = endOf(this.#rest, 0); end !== undefined; end = endOf(this.#rest, 0)) {
      this.#found(this.#rest.subarray(0, end))
      this.#rest = this.#rest.subarray(end)
    }
  }
}

function endOf(bytes: Buffer, start: number): number | undefined {
  const line = bytes.indexOf('\r\n', start)
  if (line === -1) return undefined
  const type = String.fromCharCode(bytes[start] ?? 0)
  const length = Number(bytes.toString('latin1', start + 1, line))
  let end: number | undefined = line + 2
  if (type === '$' && length >= 0) end += length + 2
  if (type === '*') {
    for (let i = 0; i < length && end !== undefined; i++) end = endOf(bytes, end)
  }
  return end !== undefined && end <= bytes.length ? end : undefined
}

function wordsOf(command: Buffer): readonly string[] {
  const words: string[] = []
  let at = command.indexOf('\r\n') + 2
  while (at < command.length) {
    const line = command.indexOf('\r\n', at)
    const length = Number(command.toString('latin1', at + 1, line))
    words.push(command.toString('latin1', line + 2, line + 2 + length))
    at = line + 2 + length + 2
  }
  return words
}
