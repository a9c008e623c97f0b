/** A Redis of its own for the tests of the script, and batches sent to it. */
import { ALGORITHM_NAMES, type AlgorithmName, defineLimit } from '@sluice/core'
import { Redis } from 'ioredis'
import { type RedisServer, startRedis } from '../../../../../tools/redis/server.mjs'
import type { RedisReply } from '../driver.js'
import { PARTITION_TAGS } from '../partitions.js'
import { type BatchReply, decodeBatch } from './reply.js'
import { BatchCodec, type BatchTimes, type StoreOp } from './request.js'
import { BATCH, type Script, takeOneScript } from './script.js'

export type Layout = 'plain' | 'packed'

export const PREFIX = 'test'
export const LAYOUTS: readonly Layout[] = ['plain', 'packed']
/** All scripts there are. */
export const SCRIPTS = [BATCH, ...new Set(ALGORITHM_NAMES.flatMap(scriptsOf))]

/** Commands written at once. */
const AT_ONCE = 500

function scriptsOf(algorithm: AlgorithmName): readonly Script[] {
  const script = takeOneScript(defineLimit({ algorithm, max: 1, windowMs: 1000 }))
  return script === undefined ? [] : [script]
}

export interface Batch {
  readonly ops: readonly StoreOp[]
  readonly times: BatchTimes
}

export interface BatchRedis {
  readonly server: RedisServer
  readonly client: Redis
  /** Sends the batches in order and says what each was answered. */
  run(layout: Layout, batches: readonly Batch[]): Promise<readonly BatchReply[]>
  stop(): Promise<void>
}

export async function startBatchRedis(): Promise<BatchRedis> {
  const server = await startRedis()
  const client = new Redis(server.port, server.host, { lazyConnect: true })
  await client.connect()
  for (const { source } of SCRIPTS) await client.script('LOAD', source)
  const codecs = {
    plain: new BatchCodec({ prefix: PREFIX, layout: 'plain', tags: PARTITION_TAGS }),
    packed: new BatchCodec({ prefix: PREFIX, layout: 'packed', tags: PARTITION_TAGS }),
  }
  return {
    server,
    client,
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

/** One command as a client that takes words sends it. */
export async function send(
  client: Redis,
  [name = '', ...words]: readonly (string | Buffer)[],
): Promise<RedisReply> {
  return (await client.callBuffer(String(name), ...words)) as RedisReply
}
