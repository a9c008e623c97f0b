/**
 * Sends single commands, each with its own timeout, for what the store does besides decisions.
 * They are not urgent, but none may wait for ever.
 */
import { createHash } from 'node:crypto'
import { SluiceError } from '@sluice/core'
import {
  type RedisChannel,
  type RedisCommand,
  RedisConnectionError,
  type RedisDriver,
  type RedisReply,
  RedisReplyError,
} from './driver.js'
import { codeOf, redirectionOf } from '../pipeline/error-actions.js'
import { luaText } from '../protocol/lua-text.js'

const END = Buffer.of(13, 10)

export type CommandWord = string | Buffer | number

/** Sends one command to a node that is already chosen. */
export type RunCommand = (words: readonly CommandWord[]) => Promise<RedisReply>

/** A command of these words, encoded when a driver needs its bytes. */
export function wordsCommand(words: readonly CommandWord[]): RedisCommand {
  const texts = words.map((word) => (typeof word === 'number' ? String(word) : word))
  let encoded: Buffer | undefined
  return {
    words: () => texts,
    bytes: () => {
      encoded ??= encode(texts)
      return encoded
    },
  }
}

function encode(words: readonly (string | Buffer)[]): Buffer {
  const chunks: Buffer[] = [Buffer.from(`*${words.length}\r\n`)]
  for (const word of words) {
    const bytes = typeof word === 'string' ? Buffer.from(word) : word
    chunks.push(Buffer.from(`$${bytes.length}\r\n`), bytes, END)
  }
  return Buffer.concat(chunks)
}

/**
 * Sends one command and settles exactly once: with its reply, with what the driver says went wrong,
 * or after `timeoutMs`. A later reply is ignored.
 */
export function runOnChannel(
  channel: RedisChannel,
  words: readonly CommandWord[],
  timeoutMs: number,
): Promise<RedisReply> {
  return runAllOnChannel(channel, [words], timeoutMs)
}

/** All commands in one write; the reply of the last. */
function runAllOnChannel(
  channel: RedisChannel,
  commands: readonly (readonly CommandWord[])[],
  timeoutMs: number,
): Promise<RedisReply> {
  const last = commands.length - 1
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      const command = String(commands[last]?.[0])
      const found = `did not answer ${command} within ${timeoutMs} ms`
      reject(new SluiceError('STORE_FAILED', `Redis at ${channel.address} ${found}`))
    }, timeoutMs)
    timer.unref()
    const wasSent = channel.send(commands.map(wordsCommand), (index, reply) => {
      if (index !== last) return
      clearTimeout(timer)
      if (reply instanceof Error) reject(reply)
      else resolve(reply)
    })
    if (wasSent) return
    clearTimeout(timer)
    reject(new RedisConnectionError(`Redis at ${channel.address} is not connected`))
  })
}

/** Sends to the node of a slot, and follows one redirection: slots move while nodes run. */
export function runOnSlot(
  driver: Pick<RedisDriver, 'channelOf' | 'channelAt' | 'refresh'>,
  slot: number,
  timeoutMs: number,
): RunCommand {
  return async (words) => {
    const channel = driver.channelOf(slot)
    if (channel === undefined) {
      throw new RedisConnectionError(`No Redis is known to serve slot ${slot} now`)
    }
    try {
      return await runOnChannel(channel, words, timeoutMs)
    } catch (error) {
      if (!(error instanceof RedisReplyError)) throw error
      const redirection = redirectionOf(error.message)
      if (redirection === undefined) throw error
      const isMoved = codeOf(error.message) === 'MOVED'
      if (isMoved) driver.refresh()
      const target = driver.channelAt(wholeAddress(redirection.address, channel.address))
      if (target === undefined) throw error
      return runAllOnChannel(target, isMoved ? [words] : [['ASKING'], words], timeoutMs)
    }
  }
}

/** A redirection without a host means the host of the node that wrote it. */
export function wholeAddress(address: string, from: string): string {
  return address.startsWith(':') ? from.slice(0, from.lastIndexOf(':')) + address : address
}

export interface LuaScript {
  readonly source: string
  /** SHA-1 of the source, by which Redis knows it. */
  readonly sha: string
}

/** A script of this package, by the name of its file. */
export function luaScript(name: string): LuaScript {
  const source = luaText(name)
  return { source, sha: createHash('sha1').update(source).digest('hex') }
}

/** Runs a script by its hash, and with its source where the node does not know it. */
export async function runScript(
  run: RunCommand,
  script: LuaScript,
  keys: readonly string[],
  args: readonly CommandWord[],
): Promise<RedisReply> {
  const rest = [keys.length, ...keys, ...args]
  try {
    return await run(['EVALSHA', script.sha, ...rest])
  } catch (error) {
    const isUnknown = error instanceof RedisReplyError && codeOf(error.message) === 'NOSCRIPT'
    if (!isUnknown) throw error
    return run(['EVAL', script.source, ...rest])
  }
}

/** A reply as text; undefined if there is none. */
export function textOf(reply: RedisReply): string | undefined {
  if (Buffer.isBuffer(reply)) return reply.toString()
  return typeof reply === 'number' ? String(reply) : undefined
}
