/** Helpers for the tests of drivers, which run for all clients. */
import { onTestFinished } from 'vitest'
import { waitFor } from '../../../../../tools/redis/wait-for.js'
import { wordsCommand } from './run-command.js'
import type { RedisChannel, RedisDriver, RedisReply } from './driver.js'
import type { RedisClient } from '../redis-options.js'
import { parseRedisUrl } from './redis-target.js'
import { type DriverOptions, openDriver } from './open-driver.js'

/** For tests that count problems: a machine that is slow must not cause any. */
export const PATIENT = { connectTimeoutMs: 20_000 }

export interface OpenedDriver {
  readonly driver: RedisDriver
  /** Every address that became ready, in order. */
  readonly readies: string[]
  /** Every message, in order. */
  readonly problems: string[]
}

/** Closed when the test ends. */
export async function open(
  url: string,
  client: RedisClient,
  options: Omit<Partial<DriverOptions>, 'target' | 'client'> = {},
): Promise<OpenedDriver> {
  const driver = await openDriver({ target: parseRedisUrl(url), client, ...options })
  const readies: string[] = []
  const problems: string[] = []
  driver.onReady(({ address }) => readies.push(address))
  driver.onProblem(({ message }) => problems.push(message))
  onTestFinished(() => driver.close())
  return { driver, readies, problems }
}

/** The channel of a slot, once it is ready. */
export function readyChannel(driver: RedisDriver, slot = 0): Promise<RedisChannel> {
  return waitFor(`A channel for slot ${slot}`, async () => {
    const channel = driver.channelOf(slot)
    return channel?.isReady === true && channel
  })
}

/** Sends all commands in one write and resolves to their replies. Rejects if they were not sent. */
export function askAll(
  channel: RedisChannel,
  commands: readonly (readonly (string | Buffer)[])[],
): Promise<readonly (RedisReply | Error)[]> {
  return new Promise((resolve, reject) => {
    const replies: (RedisReply | Error)[] = []
    let settled = 0
    const wasSent = channel.send(commands.map(wordsCommand), (index, reply) => {
      if (replies[index] !== undefined) reject(new Error(`${index} was settled twice`))
      replies[index] = reply
      settled += 1
      if (settled === commands.length) resolve(replies)
    })
    if (!wasSent) reject(new Error('The commands were not sent'))
  })
}

export async function ask(
  channel: RedisChannel,
  ...words: readonly (string | Buffer)[]
): Promise<RedisReply | Error> {
  const [reply] = await askAll(channel, [words])
  if (reply === undefined) throw new Error('No command was sent')
  return reply
}

/** The reply as text, if it is one. */
export const textOf = (reply: RedisReply | Error): string =>
  reply instanceof Error ? `${reply.name}: ${reply.message}` : String(reply)
