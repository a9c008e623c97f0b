/** Channels and schedulers for tests of what the store does apart from deciding. */
import { Redis } from 'ioredis'
import { type RunCommand, runOnChannel } from './run-command.js'
import {
  type RedisChannel,
  type RedisCommand,
  RedisConnectionError,
  type RedisReply,
  RedisReplyError,
} from './driver.js'
import type { Scheduler } from '../../periodic.js'

const ANSWER_MS_MAX = 10_000

export interface TestChannel extends RedisChannel {
  readonly run: RunCommand
  close(): void
}

/** A connection to a real server; resolves once it is ready. */
export async function openChannel(
  port: number,
  user?: { readonly username: string; readonly password: string },
): Promise<TestChannel> {
  const client = new Redis({
    ...user,
    port,
    host: '127.0.0.1',
    lazyConnect: true,
    enableOfflineQueue: false,
    retryStrategy: () => 20,
  })
  client.on('error', () => {})
  await client.connect()
  const channel: TestChannel = {
    address: `127.0.0.1:${port}`,
    get isReady() {
      return client.status === 'ready'
    },
    send: (commands, settle) => {
      if (client.status !== 'ready') return false
      for (const [index, command] of commands.entries()) {
        const [name = '', ...rest] = command.words()
        client.callBuffer(String(name), ...rest).then(
          (reply) => settle(index, reply as RedisReply),
          (error: Error) => settle(index, translate(error)),
        )
      }
      return true
    },
    reconnect: () => client.disconnect(true),
    run: (words) => runOnChannel(channel, words, ANSWER_MS_MAX),
    close: () => client.disconnect(),
  }
  return channel
}

function translate(error: Error): Error {
  if (error.name === 'ReplyError') return new RedisReplyError(error.message)
  return new RedisConnectionError(error.message)
}

export type Settle = (index: number, reply: RedisReply | Error) => void

/** A channel whose replies the test writes. */
export class FakeChannel implements RedisChannel {
  readonly address: string
  isReady = true
  readonly sent: { readonly commands: readonly RedisCommand[]; readonly settle: Settle }[] = []

  constructor(address = '127.0.0.1:6379') {
    this.address = address
  }

  send(commands: readonly RedisCommand[], settle: Settle): boolean {
    if (!this.isReady) return false
    this.sent.push({ commands, settle })
    return true
  }

  reconnect(): void {}

  /** The arguments of all commands so far, write by write. */
  words(): readonly (readonly string[])[] {
    return this.sent.map(({ commands }) => commands.map((each) => each.words().join(' ')))
  }

  reply(write: number, ...replies: readonly (RedisReply | Error)[]): void {
    for (const [index, reply] of replies.entries()) this.sent[write]?.settle(index, reply)
  }
}

/** A scheduler whose time the test advances. */
export class FakeScheduler implements Scheduler {
  nowMs = 0
  readonly #waiting = new Set<{ atMs: number; run: () => void }>()

  after(ms: number, run: () => void): () => void {
    const entry = { atMs: this.nowMs + ms, run }
    this.#waiting.add(entry)
    return () => this.#waiting.delete(entry)
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Advances time and runs what is due at each moment. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.nowMs + ms
    await settled()
    for (;;) {
      const [next] = [...this.#waiting].toSorted((a, b) => a.atMs - b.atMs)
      if (next === undefined || next.atMs > untilMs) break
      this.nowMs = next.atMs
      this.#waiting.delete(next)
      next.run()
      await settled()
    }
    this.nowMs = untilMs
    await settled()
  }
}

/** Resolves when every promise that can settle has settled. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
