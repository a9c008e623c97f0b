/** Connections by ioredis, or by iovalkey, which is the same code under another name. */
import {
  type RedisCommand,
  RedisConnectionError,
  type RedisReply,
  RedisReplyError,
} from './driver.js'
import {
  KEEP_ALIVE_MS,
  type RedisSocket,
  type RedisSocketOptions,
  type OpenSocket,
  CLIENT_TIMEOUT_FACTOR,
  type Settle,
  tlsOf,
} from './socket.js'

/** The part of ioredis that is used. Its own types would make it a dependency of this package. */
export interface IoredisModule {
  readonly Redis: new (options: Readonly<Record<string, unknown>>) => IoredisClient
  readonly Command: new (
    name: string,
    args: readonly unknown[],
    options: { readonly replyEncoding: null },
  ) => IoredisCommand
}

interface IoredisClient {
  readonly status: string
  readonly stream: IoredisStream | undefined
  on(event: 'ready' | 'end', listener: () => void): this
  on(event: 'error', listener: (error: Error) => void): this
  connect(): Promise<void>
  disconnect(): void
  on(event: 'messageBuffer', listener: (channel: Buffer, message: Buffer) => void): this
  sendCommand(command: IoredisCommand): unknown
  subscribe(channel: string): Promise<unknown>
}

interface IoredisStream {
  readonly writable: boolean
  cork(): void
  uncork(): void
  destroy(): void
}

interface IoredisCommand {
  resolve: (reply: unknown) => void
  reject: (error: Error) => void
  isTraced?: boolean
  toWritable(): unknown
}

/** Options that keep ioredis from reconnecting, queueing or retrying by itself. */
const PASSIVE = {
  lazyConnect: true,
  retryStrategy: null,
  enableOfflineQueue: false,
  enableReadyCheck: false,
  enableAutoPipelining: false,
  autoResendUnfulfilledCommands: false,
  autoResubscribe: false,
  maxRetriesPerRequest: null,
  disableClientInfo: true,
  protocol: 2,
  family: 0,
  noDelay: true,
  keepAlive: KEEP_ALIVE_MS,
}

export function ioredisSockets(module: IoredisModule, options: RedisSocketOptions): OpenSocket {
  const RawCommand = rawCommandOf(module)
  return (address, events) => {
    const tls = options.tls === undefined ? undefined : tlsOf(options.tls, address)
    const connectTimeout = options.connectTimeoutMs * CLIENT_TIMEOUT_FACTOR
    const redis = new module.Redis({ ...PASSIVE, ...address, connectTimeout, tls })
    let reason = new Error('Closed by the server')
    redis.on('ready', () => events.opened())
    redis.on('end', () => events.ended(reason))
    redis.on('error', (error) => {
      reason = error
      // ioredis may stay connected after this, with replies and commands out of step.
      events.ended(error)
    })
    // Errors arrive through the events.
    redis.connect().catch(() => {})
    return new IoredisSocket(redis, RawCommand)
  }
}

type RawCommand = new (command: RedisCommand, index: number, settle: Settle) => IoredisCommand

class IoredisSocket implements RedisSocket {
  readonly #redis: IoredisClient
  readonly #command: RawCommand

  constructor(redis: IoredisClient, command: RawCommand) {
    this.#redis = redis
    this.#command = command
  }

  get isWritable(): boolean {
    return this.#redis.status === 'ready' && this.#redis.stream?.writable === true
  }

  send(commands: readonly RedisCommand[], settle: Settle): void {
    const Command = this.#command
    const { stream } = this.#redis
    // One write for all commands, because a write is the largest cost. It is sent now, so that
    // Redis works while this process continues.
    if (commands.length > 1) stream?.cork()
    try {
      for (let index = 0; index < commands.length; index++) {
        const command = commands[index]
        if (command !== undefined) this.#redis.sendCommand(new Command(command, index, settle))
      }
    } finally {
      if (commands.length > 1) stream?.uncork()
    }
  }

  async subscribe(channel: string, onMessage: (message: Buffer) => void): Promise<void> {
    this.#redis.on('messageBuffer', (_, message) => onMessage(message))
    try {
      await this.#redis.subscribe(channel)
    } catch (error) {
      throw errorOf(error instanceof Error ? error : new Error(String(error)))
    }
  }

  destroy(): void {
    this.#redis.disconnect()
    // Otherwise ioredis would wait two seconds for the server, which may be gone.
    this.#redis.stream?.destroy()
  }
}

/**
 * A command that is written as encoded, and whose reply is passed on directly. A promise per
 * command, and strings made of replies, would cost more than the rest of the work.
 */
function rawCommandOf({ Command }: IoredisModule): RawCommand {
  return class Raw extends Command {
    #bytes: Uint8Array
    #settle: Settle | undefined

    constructor(command: RedisCommand, index: number, settle: Settle) {
      // Any name that is not a Redis command, so that ioredis does not treat it specially.
      super('raw', NO_WORDS, AS_BYTES)
      this.#bytes = command.bytes()
      this.#settle = settle
      // Otherwise a tracer would wait for the promise.
      this.isTraced = true
      this.resolve = (reply) => this.release()?.(index, reply as RedisReply)
      this.reject = (error) => this.release()?.(index, errorOf(error))
    }

    /** A promise that is never awaited would cost as much as the rest of a command. */
    initPromise(): void {}

    override toWritable(): unknown {
      const bytes = this.#bytes
      this.#bytes = NOTHING
      return bytes
    }

    /**
     * Releases the callback. ioredis links each command to the next, so one in the old generation
     * retains all later ones until a major garbage collection, which took half of the CPU.
     */
    private release(): Settle | undefined {
      const settle = this.#settle
      this.#settle = undefined
      return settle
    }
  }
}

const NOTHING = new Uint8Array(0)
const NO_WORDS: readonly unknown[] = []
const AS_BYTES = { replyEncoding: null } as const

function errorOf(error: Error): Error {
  return error.name === 'ReplyError'
    ? new RedisReplyError(error.message)
    : new RedisConnectionError(error.message)
}
