/** The types of `server.mjs`. */

export interface RedisOptions {
  /** The port. @default a free one */
  readonly port?: number
  /** More arguments of redis-server; they take precedence over the defaults. */
  readonly config?: readonly string[]
  /** The folder of its files, which then stay. @default a temporary folder */
  readonly folder?: string
  readonly env?: Readonly<Record<string, string>>
  /** The text of a configuration file that the server may rewrite; Sentinel needs one. */
  readonly file?: string
  /** The password; part of `url`, and sent by `cli`. */
  readonly password?: string
  /** Another program with the same arguments, such as `valkey-server`. */
  readonly command?: string
}

/** A RESP2 reply; strings are UTF-8. */
export type Reply = string | number | null | Error | readonly Reply[]

export interface RedisMemory {
  readonly usedBytes: number
  readonly peakBytes: number
  readonly datasetBytes: number
  readonly residentBytes: number
}

export interface RedisServer {
  readonly port: number
  readonly host: string
  /** `host:port`. */
  readonly address: string
  /** `redis://...`. */
  readonly url: string
  readonly folder: string
  /** The process id, which changes with `restart`; throws while no process runs. */
  readonly pid: number
  readonly isRunning: boolean
  readonly isPaused: boolean
  /** Sends one command; returns its reply as redis-cli prints it to a pipe, or throws its error. */
  cli(...words: readonly string[]): Promise<string>
  /** Sends one command; returns its reply, or throws its error. */
  call(...words: readonly string[]): Promise<Reply>
  /** Sends all commands at once on one connection; returns replies and errors in order. */
  pipeline(commands: readonly (readonly string[])[]): Promise<readonly Reply[]>
  /** The fields of INFO. */
  info(section?: string): Promise<Readonly<Record<string, string>>>
  memory(): Promise<RedisMemory>
  /** The CPU time of the process, user plus system, in steps of 10 ms. */
  cpuMs(): number
  /** Kills it like a crash, even while it is paused; resolves when it is gone. */
  kill(): Promise<void>
  /** Starts it after `kill` or a crash, on the same port and in the same folder. */
  start(): Promise<void>
  /** `kill` and `start`: empty, unless `config` enables persistence. */
  restart(): Promise<void>
  /** Stops the process: connections stay open, nothing is answered. */
  pause(): void
  resume(): void
  signal(name: NodeJS.Signals): void
  /** Kills it and removes its temporary folder. */
  stop(): Promise<void>
  /** The content of its log. */
  output(): string
}

/** Starts a server on the loopback; resolves once it answers. */
export function startRedis(options?: RedisOptions): Promise<RedisServer>

/** The keys without expiry. */
export function scanWithoutTtl(
  server: Pick<RedisServer, 'call' | 'pipeline'>,
): Promise<readonly string[]>
