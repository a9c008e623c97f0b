/**
 * A network between a client and a server that fails on demand, inside this process. Every fault
 * applies to open and new connections until `heal`; faults add up. Bytes keep their order. Limits:
 * a connection to it is made at once, whatever the delay, and if the server is down it is reset,
 * not refused.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from '../ports.mjs'
import { FaultPipe, type Faults } from './fault-pipe.js'

const HOST = '127.0.0.1'

/** The direction of bytes. */
type Direction = 'to-server' | 'to-client' | 'both'

export interface FaultProxy {
  readonly port: number
  readonly host: string
  /** `host:port`. */
  readonly address: string
  /** `redis://...`. */
  readonly url: string
  /** Delays bytes in each direction by this, plus a random part of the jitter. */
  delay(ms: number, jitterMs?: number): void
  /** Passes this many bytes at once in each direction, with a gap between. */
  slow(bytes: number, gapMs: number): void
  /** Holds bytes back, as in an interrupted network; `heal` delivers them late. */
  hold(direction?: Direction): void
  /**
   * Drops bytes and ends of connections, as behind a router that forgot them. `heal` resets
   * connections that lost something.
   */
  blackhole(direction?: Direction): void
  /** The same, only for connections that are open now: new ones work. */
  forget(): void
  /** Replaces replies, by default with random bytes of the same length. */
  garbage(replace?: (reply: Buffer) => Buffer): void
  /**
   * Resets every connection after this many more bytes of replies. Some readers see a reset right
   * after bytes as an end: libuv reports an end if both arrive together.
   */
  limitData(bytes: number): void
  /** Resets all open connections; new ones work. */
  cut(): void
  /** Refuses new connections; open ones stay. */
  refuse(): void
  /** Ends all faults. */
  heal(): Promise<void>
  /** The number of open connections. */
  connections(): number
  /** The number of connections since the start. */
  accepted(): number
  stop(): Promise<void>
}

export async function startFaultProxy(targetPort: number): Promise<FaultProxy> {
  const proxy = new BreakableNetwork(targetPort, await freePort())
  await proxy.listen()
  return proxy
}

/** Connections read this before every byte, so a change applies to all at once. */
interface BothFaults {
  toServer: Faults
  toClient: Faults
}

class BreakableNetwork implements FaultProxy {
  readonly host = HOST
  readonly port: number
  readonly #targetPort: number
  readonly #faults: BothFaults = { toServer: {}, toClient: {} }
  readonly #connections = new Set<Connection>()
  #listener: Server | undefined
  #accepted = 0

  constructor(targetPort: number, port: number) {
    this.#targetPort = targetPort
    this.port = port
  }

  get address() {
    return `${HOST}:${this.port}`
  }

  get url() {
    return `redis://${this.address}`
  }

  delay(ms: number, jitterMs = 0) {
    this.change('both', { delayMs: ms, jitterMs })
  }

  slow(bytes: number, gapMs: number) {
    this.change('both', { slice: { bytes, gapMs } })
  }

  hold(direction: Direction = 'both') {
    this.change(direction, { isHeld: true })
  }

  blackhole(direction: Direction = 'both') {
    this.change(direction, { isLost: true })
  }

  forget() {
    for (const connection of this.#connections) connection.forget()
  }

  garbage(replace: (reply: Buffer) => Buffer = ({ length }) => randomBytes(length)) {
    this.change('to-client', { replace })
  }

  limitData(bytes: number) {
    this.change('to-client', { bytesMax: bytes })
    for (const connection of this.#connections) connection.toClient.startCount()
  }

  cut() {
    for (const connection of this.#connections) connection.reset()
  }

  refuse() {
    this.#listener?.close()
    this.#listener = undefined
  }

  async heal() {
    this.#faults.toServer = {}
    this.#faults.toClient = {}
    for (const connection of this.#connections) connection.heal()
    await this.listen()
  }

  connections() {
    return [...this.#connections].filter(({ hasClient }) => hasClient).length
  }

  accepted() {
    return this.#accepted
  }

  async stop() {
    const closed = this.#listener && once(this.#listener, 'close')
    this.refuse()
    this.cut()
    await closed
  }

  async listen(): Promise<void> {
    if (this.#listener !== undefined) return
    const listener = createServer({ allowHalfOpen: true, noDelay: true })
    listener.on('connection', (client) => this.accept(client))
    this.#listener = listener
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject)
      listener.listen(this.port, HOST, resolve)
    })
  }

  private accept(client: Socket): void {
    this.#accepted += 1
    const target = { port: this.#targetPort, host: HOST }
    const server = connect({ ...target, allowHalfOpen: true, noDelay: true })
    const connection = new Connection(client, server, this.#faults)
    this.#connections.add(connection)
    const forget = () => {
      if (client.destroyed && server.destroyed) this.#connections.delete(connection)
    }
    client.once('close', forget)
    server.once('close', forget)
  }

  private change(direction: Direction, change: Faults): void {
    if (direction !== 'to-client') Object.assign(this.#faults.toServer, change)
    if (direction !== 'to-server') Object.assign(this.#faults.toClient, change)
    for (const connection of this.#connections) connection.changed()
  }
}

const LOST: Faults = { isLost: true }

class Connection {
  readonly toServer: FaultPipe
  readonly toClient: FaultPipe
  readonly #client: Socket
  readonly #server: Socket
  #isForgotten = false

  constructor(client: Socket, server: Socket, faults: BothFaults) {
    this.#client = client
    this.#server = server
    const reset = () => this.reset()
    const either = (own: Faults) => (this.#isForgotten ? LOST : own)
    this.toServer = new FaultPipe(client, server, () => either(faults.toServer), reset)
    this.toClient = new FaultPipe(server, client, () => either(faults.toClient), reset)
  }

  /** A client that ended its half has gone: Redis clients do not half-close. */
  get hasClient(): boolean {
    return !this.#client.destroyed && !this.#client.readableEnded
  }

  changed(): void {
    this.toServer.changed()
    this.toClient.changed()
  }

  forget(): void {
    this.#isForgotten = true
    this.changed()
  }

  heal(): void {
    this.#isForgotten = false
    if (this.toServer.hasLost || this.toClient.hasLost) return this.reset()
    this.toServer.heal()
    this.toClient.heal()
  }

  reset(): void {
    this.toServer.close()
    this.toClient.close()
    this.#client.resetAndDestroy()
    this.#server.resetAndDestroy()
  }
}
