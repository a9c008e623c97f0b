/** Listeners on free ports, and clients that send exactly the bytes of a test. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import type { TlsFiles } from '../../config/config.js'
import { createMemoryLog, type MemoryLog } from '../../observability/log/memory-log.test-helper.js'
import { createListener, type HttpListener } from './http-listener.js'

export interface TestListener {
  readonly listener: HttpListener
  readonly memory: MemoryLog
  readonly port: number
  readonly url: string
}

export interface TestListenerOptions {
  readonly headersMs?: number
  readonly requestMs?: number
  readonly stallMs?: number
  readonly maxConnections?: number
  /** Bounds of each address, including loopback. @default no bounds */
  readonly perAddress?: { readonly maxConnections: number; readonly maxCalls: number }
  readonly tls?: TlsFiles
  /** Called before the server listens. */
  readonly prepare?: (server: HttpListener['server'], listener: HttpListener) => void
}

/** Bounds from which every address is exempt. */
export const UNCOUNTED = {
  maxConnections: 1,
  maxCalls: 1,
  isExempt: () => true,
  describe: (address: string) => `[${address}]`,
}
const COUNTED = { isExempt: () => false }

const started: HttpListener[] = []

export async function startListener(options: TestListenerOptions = {}): Promise<TestListener> {
  const { headersMs = 9000, requestMs = 30_000, stallMs = 60_000 } = options
  const { maxConnections = 1000, tls, prepare, perAddress } = options
  const memory = createMemoryLog()
  const listener = createListener({
    listen: { host: '127.0.0.1', port: 0 },
    tls,
    timeouts: { headersMs, requestMs, stallMs },
    maxConnections,
    perAddress: perAddress === undefined ? UNCOUNTED : { ...UNCOUNTED, ...perAddress, ...COUNTED },
    log: memory.log,
  })
  started.push(listener)
  prepare?.(listener.server, listener)
  const { port, url } = await listener.start()
  return { listener, memory, port, url }
}

export async function stopListeners(): Promise<void> {
  for (const listener of started.splice(0)) {
    await listener.stopAccepting()
    listener.destroyAll()
    await listener.closed
  }
}

/** A connection, and all that it received. */
export class Client {
  readonly socket: Socket
  readonly closed: Promise<string>
  text = ''

  constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', (bytes: Buffer) => {
      this.text += bytes.toString('latin1')
    })
    // A reset is an end too; the text is what arrived before it.
    socket.on('error', () => undefined)
    this.closed = new Promise((resolve) => socket.once('close', () => resolve(this.text)))
  }

  send(text: string): void {
    this.socket.write(text, 'latin1')
  }

  /** Resolves when the received text satisfies the condition. */
  async until(isThere: (text: string) => boolean): Promise<string> {
    while (!isThere(this.text)) {
      if (this.socket.destroyed) throw new Error(`Closed after: ${this.text}`)
      await new Promise(setImmediate)
    }
    return this.text
  }
}

export function connectTo(port: number): Client {
  return new Client(connect({ port, host: '127.0.0.1' }))
}

/** The response of a server to these bytes until it closes the connection. */
export function exchange(port: number, bytes: string): Promise<string> {
  const client = connectTo(port)
  client.send(bytes)
  return client.closed
}

export function statusOf(text: string): number {
  return Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1])
}

export function bodyOf(text: string): unknown {
  return JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4))
}

export interface Served {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

export interface HeldListener extends TestListener {
  /** Resolves when so many requests have arrived. */
  readonly untilServed: (count: number) => Promise<readonly Served[]>
}

/** A listener whose requests wait until the test answers them. */
export async function startHeld(options: TestListenerOptions = {}): Promise<HeldListener> {
  const served: Served[] = []
  const held = await startListener({
    ...options,
    prepare: (server, listener) => {
      listener.serve((request, response) => {
        request.on('error', () => undefined)
        served.push({ request, response })
      })
      options.prepare?.(server, listener)
    },
  })
  const untilServed = async (count: number) => {
    await until(() => served.length >= count)
    return served
  }
  return { ...held, untilServed }
}

/** A listener that answers at once. */
export function startEager(options: TestListenerOptions = {}): Promise<TestListener> {
  return startListener({
    ...options,
    prepare: (server, listener) => {
      server.on('request', (_, response) => response.end('served'))
      options.prepare?.(server, listener)
    },
  })
}

export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise(setImmediate)
}
