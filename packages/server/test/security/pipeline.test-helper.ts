/** Sends many pipelined requests over few connections, and returns the response to each. */
import { connect, type Socket } from 'node:net'

export interface PipelinedResponse {
  /** 0: the connection was closed without a response. */
  readonly status: number
  /** The first line and the headers. */
  readonly head: string
}

export interface PipelineOptions {
  readonly connections: number
  /** Requests in flight on one connection. */
  readonly depth: number
}

/**
 * Returns responses in the order of the requests. If a request ends its connection, those behind it
 * are sent again on another: a server that closes does not read what follows.
 */
export async function pipeline(
  port: number,
  requests: readonly string[],
  { connections, depth }: PipelineOptions,
): Promise<readonly PipelinedResponse[]> {
  const answers: PipelinedResponse[] = []
  let next = 0
  const work = async () => {
    let connection: PipelineConnection | undefined
    let batch: number[] = []
    for (;;) {
      while (batch.length < depth && next < requests.length) batch.push(next++)
      if (batch.length === 0) break
      connection ??= new PipelineConnection(port)
      const { heads, isOpen } = await connection.exchange(
        batch.map((index) => requests[index] ?? ''),
      )
      batch.slice(0, heads.length).forEach((index, at) => {
        const head = heads[at] ?? ''
        answers[index] = { status: Number(head.slice(9, 12)), head }
      })
      // Closed before the first response: the first request is the one that was refused.
      const unanswered = heads.length === 0 && !isOpen ? 1 : 0
      if (unanswered === 1) answers[batch[0] ?? 0] = { status: 0, head: '' }
      batch = batch.slice(heads.length + unanswered)
      if (!isOpen) connection = undefined
    }
    connection?.end()
  }
  await Promise.all(Array.from({ length: connections }, work))
  return answers
}

/** One connection. */
class PipelineConnection {
  readonly #socket: Socket
  #text = ''
  #heads: string[] = []
  #wanted = 0
  #isOpen = true
  #done: () => void = () => undefined

  constructor(port: number) {
    this.#socket = connect(port, '127.0.0.1').setNoDelay().setEncoding('latin1')
    this.#socket.on('data', (text) => this.read(String(text)))
    this.#socket.on('error', () => undefined)
    this.#socket.on('close', () => {
      this.#isOpen = false
      this.#done()
    })
  }

  async exchange(requests: readonly string[]) {
    this.#heads = []
    this.#wanted = requests.length
    this.#socket.write(requests.join(''), 'latin1')
    await new Promise<void>((resolve) => {
      this.#done = resolve
    })
    return { heads: this.#heads, isOpen: this.#isOpen }
  }

  end(): void {
    this.#socket.destroy()
  }

  private read(text: string): void {
    this.#text += text
    let at = 0
    for (;;) {
      const end = this.#text.indexOf('\r\n\r\n', at)
      if (end === -1) break
      const head = this.#text.slice(at, end)
      const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0)
      if (end + 4 + length > this.#text.length) break
      at = end + 4 + length
      this.#heads.push(head)
    }
    this.#text = this.#text.slice(at)
    // After `close` it waits: the server must then end the connection.
    if (this.#heads.length < this.#wanted) return
    if (/^connection: close$/im.test(this.#heads.at(-1) ?? '')) return
    this.#done()
  }
}
