/** A Redis for the tests of the script, and batches sent to it. */
import type { CounterKey, Limit } from '@sluice/core'
import { Redis } from 'ioredis'
import { type RedisServer, startRedis } from '../../../../../tools/redis/server.mjs'
import type { Groups, PeekOutcome } from '../../store.js'
import type { RedisReply } from '../connection/driver.js'
import { counterKeyText, hashKeyText } from './redis-keys.js'
import { PARTITION_TAGS } from '../request/partitions.js'
import { type BatchReply, decodeBatch } from './batch-reply.js'
import { BatchCodec, type BatchTimes, type StoreOp } from './batch-request.js'
import { SCRIPTS } from './batch-scripts.js'

export type Layout = 'plain' | 'packed'

export const PREFIX = 'test'
export const LAYOUTS: readonly Layout[] = ['plain', 'packed']
/** Commands written at once. */
const AT_ONCE = 500

export interface Batch {
  readonly ops: readonly StoreOp[]
  readonly times: BatchTimes
}

export interface BatchRedis {
  readonly server: RedisServer
  readonly client: Redis
  /** Loads the scripts into Redis. */
  load(): Promise<void>
  /** Sends the batches in order and returns the reply to each. */
  run(layout: Layout, batches: readonly Batch[]): Promise<readonly BatchReply[]>
  stop(): Promise<void>
}

export async function startBatchRedis(): Promise<BatchRedis> {
  const server = await startRedis()
  const client = new Redis(server.port, server.host, { lazyConnect: true })
  await client.connect()
  const load = async () => {
    for (const { source } of SCRIPTS) await client.script('LOAD', source)
  }
  await load()
  const codecs = {
    plain: new BatchCodec({ prefix: PREFIX, layout: 'plain', tags: PARTITION_TAGS }),
    packed: new BatchCodec({ prefix: PREFIX, layout: 'packed', tags: PARTITION_TAGS }),
  }
  return {
    server,
    client,
    load,
    run: async (layout, batches) => {
      const replies: BatchReply[] = []
      for (let from = 0; from < batches.length; from += AT_ONCE) {
        const some = batches.slice(from, from + AT_ONCE)
        const answered = await Promise.all(
          some.map(({ ops, times }) =>
            send(client, codecs[layout].encode(ops, times).command.words()),
          ),
        )
        some.forEach(({ ops }, index) => {
          replies.push(decodeBatch(ops, answered[index] ?? null))
        })
      }
      return replies
    },
    stop: async () => {
      client.disconnect()
      await server.stop()
    },
  }
}

/** Sends one command like a client that encodes arguments itself. */
export async function send(
  client: Redis,
  [name = '', ...words]: readonly (string | Buffer)[],
): Promise<RedisReply> {
  return (await client.callBuffer(String(name), ...words)) as RedisReply
}

/** Counters in different partitions. */
export function keyOf(n: number): CounterKey {
  return {
    hi: Math.imul(n, 0x9e3779b1) | 0,
    lo: Math.imul(n, 0x85ebca6b) | 0,
    partition: (n * 7) % PARTITION_TAGS.length,
  }
}

/** The key of a counter, or of a log in either layout. */
export function placeOf(key: CounterKey): string {
  return counterKeyText(PREFIX, PARTITION_TAGS[key.partition] ?? '', key)
}

/** The hash of a counter in the packed layout, and its field there. */
export function fieldOf(key: CounterKey): readonly [hash: string, field: Buffer] {
  const field = Buffer.alloc(8)
  field.writeInt32BE(key.hi, 0)
  field.writeInt32BE(key.lo, 4)
  return [hashKeyText(PREFIX, PARTITION_TAGS[key.partition] ?? '', key), field]
}

export function takeOf(key: CounterKey, limit: Limit, amount = 1): StoreOp {
  return { verb: 'take', groups: [[{ key, limit, amount }]], states: false }
}

export function peekOf(key: CounterKey, limit: Limit, amount = 1): StoreOp {
  return { verb: 'peek', groups: [[{ key, limit, amount }]], states: true }
}

/** The outcome of each op of a batch of single takes. */
export function outcomesOf({ answers }: BatchReply): readonly (PeekOutcome | undefined)[] {
  return answers.map((answer) => (answer as Groups<PeekOutcome> | undefined)?.[0]?.[0])
}
