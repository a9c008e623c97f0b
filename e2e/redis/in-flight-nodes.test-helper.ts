/** Nodes with calls in flight, each in its own process, and an observer that counts them all. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const FIXTURE = fileURLToPath(new URL('./in-flight-node.fixture.mjs', import.meta.url))

export interface InFlightTask {
  readonly url: string
  readonly rules: readonly unknown[]
  readonly attributes: Readonly<Record<string, string>>
  /** Calls that each node tries to have in flight at once. */
  readonly callers: number
  /** The longest call. */
  readonly callMs: number
  /**
   * The longest wait of a refused caller. Those that ask again at once keep the processors busy
   * with refusals.
   */
  readonly retryMs: number
}

/** Counts calls from outside: knows no limits, and sees each end before its place is free. */
export class InFlightObserver {
  readonly #server: Server
  inFlight = 0
  most = 0
  ended = 0

  private constructor() {
    this.#server = createServer((socket) => this.watch(socket))
  }

  static async start(): Promise<InFlightObserver> {
    const observer = new InFlightObserver()
    observer.#server.listen(0, '127.0.0.1')
    await once(observer.#server, 'listening')
    return observer
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  stop(): void {
    this.#server.close()
  }

  private watch(socket: Socket): void {
    let own = 0
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      let ended = 0
      for (const byte of bytes) {
        const isBegin = String.fromCharCode(byte) === '+'
        own += isBegin ? 1 : -1
        this.inFlight += isBegin ? 1 : -1
        if (isBegin) this.most = Math.max(this.most, this.inFlight)
        else ended += 1
      }
      this.ended += ended
      if (ended > 0) socket.write('k'.repeat(ended))
    })
    // The calls of a node that was killed have ended with it.
    socket.once('close', () => {
      this.inFlight -= own
    })
  }
}

export class InFlightNode {
  readonly #child: ChildProcess
  readonly #lines: AsyncIterator<string>
  #errors = ''

  private constructor(task: InFlightTask, observer: InFlightObserver) {
    const argument = JSON.stringify({ ...task, observer: observer.port })
    const child = spawn(process.execPath, [FIXTURE, argument], { stdio: ['pipe', 'pipe', 'pipe'] })
    this.#child = child
    child.stderr.on('data', (chunk: Buffer) => {
      this.#errors += chunk.toString()
    })
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  }

  static async start(task: InFlightTask, observer: InFlightObserver): Promise<InFlightNode> {
    const node = new InFlightNode(task, observer)
    await node.line()
    return node
  }

  /** Lets no more calls begin, and resolves when those in flight have ended. */
  async stop(): Promise<void> {
    this.#child.stdin?.write('stop\n')
    await this.line()
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const closed = once(this.#child, 'close')
    this.#child.kill('SIGKILL')
    await closed
  }

  private async line(): Promise<void> {
    const { done } = await this.#lines.next()
    if (done === true) throw new Error(`a node ended: ${this.#errors}`)
  }
}
