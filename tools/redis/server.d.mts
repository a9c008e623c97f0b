/** The types of `server.mjs`. */

export interface RedisOptions {
  /** Fixed, instead of a free one. */
  readonly port?: number
  /** More arguments of redis-server; they win over those that are given anyway. */
  readonly config?: readonly string[]
  /** Where it keeps its files, which then stay; a folder of its own otherwise. */
  readonly folder?: string
  readonly env?: Readonly<Record<string, string>>
  /** A configuration file that it may rewrite, by its text; Sentinel needs one. */
  readonly file?: string
  /** What clients must send; stands in `url`, and `cli` sends it. */
  readonly password?: string
  /** Another program that takes the same arguments, `valkey-server` for one. */
  readonly command?: string
}

/** A reply of RESP2, its texts read as UTF-8. */
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
  /** Another after `restart`; throws while none runs. */
  readonly pid: number
  readonly isRunning: boolean
  readonly isPaused: boolean
  /** One command; its reply as redis-cli prints it into a pipe, its error thrown. */
  cli(...words: readonly string[]): Promise<string>
  /** One command; its reply, its error thrown. */
  call(...words: readonly string[]): Promise<Reply>
  /** All commands at once on one connection; their replies in order, errors in their places. */
  pipeline(commands: readonly (readonly string[])[]): Promise<readonly Reply[]>
  /** The fields of INFO. */
  info(section?: string): Promise<Readonly<Record<string, string>>>
  memory(): Promise<RedisMemory>
  /** What the process has spent, user and system together; in steps of 10 ms. */
  cpuMs(): number
  /** Ends it as a crash would, also while paused; settles when it is gone. */
  kill(): Promise<void>
  /** After `kill`, or after its own end: on the same port, in the same folder. */
  start(): Promise<void>
  /** `kill` and `start`: empty, unless `config` asks for persistence. */
  restart(): Promise<void>
  /** Stops it in its tracks: connections stay, nothing is answered. */
  pause(): void
  resume(): void
  signal(name: NodeJS.Signals): void
  /** `kill`, and removes its own folder. */
  stop(): Promise<void>
  /** What it has written to its log so far. */
  output(): string
}

/** Starts one on the loopback; settles once it answers. */
export function startRedis(options?: RedisOptions): Promise<RedisServer>

/** The keys that would stay for ever. */
export function scanWithoutTtl(
  server: Pick<RedisServer, 'call' | 'pipeline'>,
): Promise<readonly string[]>
