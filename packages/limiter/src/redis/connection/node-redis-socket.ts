/** Connections by node-redis, whose package is @redis/client. */
import {
  type RedisCommand,
  RedisConnectionError,
  type RedisReply,
  RedisReplyError,
} from './driver.js'
import {
  KEEP_ALIVE_MS,
  type RedisSocket,
  type RedisSocketEvents,
  type RedisSocketOptions,
  type OpenSocket,
  CLIENT_TIMEOUT_FACTOR,
  type Settle,
  tlsOf,
} from './socket.js'

/**
 * The part of @redis/client that is used. Its own types would make it a dependency of this package.
 */
export interface NodeRedisModule {
  createClient(options: Readonly<Record<string, unknown>>): NodeRedisClient
  readonly ErrorReply: new (message: string) => Error
  readonly RESP_TYPES: { readonly BLOB_STRING: number; readonly SIMPLE_STRING: number }
}

interface NodeRedisClient {
  readonly isReady: boolean
  on(event: 'ready' | 'end', listener: () => void): this
  on(event: 'error', listener: (error: Error) => void): this
  connect(): Promise<unknown>
  destroy(): void
  sendCommand(words: readonly (string | Buffer)[]): Promise<unknown>
  subscribe(channel: string, listener: (message: Buffer) => void, asBuffers: true): Promise<unknown>
}

export function nodeRedisSockets(module: NodeRedisModule, options: RedisSocketOptions): OpenSocket {
  const { BLOB_STRING, SIMPLE_STRING } = module.RESP_TYPES
  const passive = {
    RESP: 2,
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    commandOptions: {
      // Its own timeouts cost more than everything else it does, and end no command that is
      // written.
      timeout: undefined,
      typeMapping: { [BLOB_STRING]: Buffer, [SIMPLE_STRING]: Buffer },
    },
  }
  return (address, events) => {
    const tls = options.tls === undefined ? {} : { tls: true, ...tlsOf(options.tls, address) }
    const client = module.createClient({
      ...passive,
      socket: {
        ...address,
        ...tls,
        connectTimeout: options.connectTimeoutMs * CLIENT_TIMEOUT_FACTOR,
        reconnectStrategy: false,
        noDelay: true,
        keepAlive: true,
        keepAliveInitialDelay: KEEP_ALIVE_MS,
      },
    })
    return new NodeRedisSocket(client, module, events)
  }
}

class NodeRedisSocket implements RedisSocket {
  readonly #client: NodeRedisClient
  readonly #module: NodeRedisModule
  #isDestroyed = false

  constructor(client: NodeRedisClient, module: NodeRedisModule, events: RedisSocketEvents) {
    this.#client = client
    this.#module = module
    client.on('ready', () => {
      // It forgets a socket that was still connecting when it was destroyed.
      if (this.#isDestroyed) client.destroy()
      else events.opened()
    })
    // After a protocol error it would stay connected, with replies and commands out of step.
    client.on('error', (error) => events.ended(error))
    client.on('end', () => events.ended(new Error('Closed by the server')))
    // Deferred: with an invalid certificate it would fail before the caller has this socket.
    queueMicrotask(() => {
      if (this.#isDestroyed) return
      client.connect().catch((error: unknown) => {
        events.ended(error instanceof Error ? error : new Error(String(error)))
      })
    })
  }

  get isWritable(): boolean {
    return this.#client.isReady
  }

  send(commands: readonly RedisCommand[], settle: Settle): void {
    // The client writes all commands at once, at the end of this turn of the event loop.
    for (const [index, command] of commands.entries()) {
      this.#client.sendCommand(command.words()).then(
        (reply) => settle(index, reply as RedisReply),
        (error: unknown) => settle(index, this.errorOf(error)),
      )
    }
  }

  async subscribe(channel: string, onMessage: (message: Buffer) => void): Promise<void> {
    try {
      await this.#client.subscribe(channel, onMessage, true)
    } catch (error) {
      throw this.errorOf(error)
    }
  }

  destroy(): void {
    this.#isDestroyed = true
    this.#client.destroy()
  }

  private errorOf(error: unknown): Error {
    const message = error instanceof Error ? error.message : String(error)
    return error instanceof this.#module.ErrorReply
      ? new RedisReplyError(message)
      : new RedisConnectionError(message)
  }
}
