import { defineBlock, defineLimit, type Limit } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { openCounters } from '../memory/memory-store.js'
import { RedisReplyError } from '../redis/connection/driver.js'
import { decodeBatch } from '../redis/protocol/batch-reply.js'
import type { StoreOp } from '../redis/protocol/store-op.js'
import { manualClock } from '../testing/manual-clock.js'
import { BatchFrames } from './batch-frame.js'
import { PeerCommands } from './peer-commands.js'

const window = defineLimit({ algorithm: 'fixed-window', max: 5, windowMs: 60_000 })
const KEY = { hi: 1, lo: 2, partition: 3 }
const takeOf = (limit: Limit, amount = 1): StoreOp => ({
  verb: 'take',
  states: false,
  groups: [[{ key: KEY, limit, amount }]],
})

function openMember() {
  const clock = manualClock()
  const used: number[] = []
  const news: string[] = []
  const commands = new PeerCommands({
    counters: openCounters({ clock }),
    clock,
    onUse: (partition) => void used.push(partition),
    onReceived: () => {},
    isLeaving: () => false,
    status: () => 'well',
    onHere: (name, view) => {
      news.push(`${name} here`)
      return `${view} too`
    },
    onGone: (name) => void news.push(`${name} gone`),
  })
  return { commands, clock, used, news }
}

/** Sends a batch, and again with its limits if they are not known. */
function send(commands: PeerCommands, ops: readonly StoreOp[], notAfter = 0) {
  const batch = new BatchFrames().encode(ops, { notAfter, now: 0 })
  const reply = commands.run(batch.command.words())
  return reply instanceof RedisReplyError ? commands.run(batch.fallback.words()) : reply
}

function errorOf(reply: unknown): string {
  return reply instanceof RedisReplyError ? reply.message : 'no error'
}

describe('a member of a ring', () => {
  test('asks for a limit that it does not know, and knows it from then on', () => {
    const { commands, used } = openMember()
    const [name, payload] = new BatchFrames()
      .encode([takeOf(window)], { notAfter: 0, now: 0 })
      .command.words()
    expect(errorOf(commands.run([name ?? '', payload ?? '']))).toMatch(/^NOSCRIPT /)
    expect(used).toEqual([])
    expect(send(commands, [takeOf(window)])).toBeInstanceOf(Buffer)
    expect(commands.run([name ?? '', payload ?? ''])).toBeInstanceOf(Buffer)
    expect(used).toEqual([3, 3])
  })

  test('answers like the script in Redis, and does nothing after the deadline', () => {
    const { commands, clock } = openMember()
    const ops = [takeOf(window, 4), takeOf(window, 2)]
    const reply = send(commands, ops) as Buffer
    const { late, storeTime, answers } = decodeBatch(ops, reply)
    expect({ late, storeTime }).toEqual({ late: false, storeTime: clock.now() })
    expect(answers).toMatchObject([
      [[{ granted: 4, remaining: 1, retryAfterMs: 0 }]],
      [[{ granted: 0, remaining: 1, state: { count: 4 } }]],
    ])
    const tooLate = send(commands, ops, clock.now() - 1) as Buffer
    expect(decodeBatch(ops, tooLate).late).toBe(true)
    const after = send(commands, [takeOf(window, 0)]) as Buffer
    expect(decodeBatch([takeOf(window, 0)], after).answers).toMatchObject([[[{ remaining: 1 }]]])
  })

  test('refuses a limit of another version and a damaged batch before anything has run', () => {
    const { commands, used } = openMember()
    const unknown = { ...window, algorithm: 'newer', format: 99 } as unknown as Limit
    expect(errorOf(send(commands, [takeOf(unknown)]))).toMatch(/^MISCONF .*another version/)
    expect(errorOf(commands.run(['RING.BATCH', Buffer.of(9, 0)]))).toMatch(/^MISCONF .*version 9/)
    expect(errorOf(commands.run(['RING.BATCH', Buffer.of(1), '{}']))).toMatch(/^MISCONF /)
    expect(used).toEqual([])
  })

  test('takes a block as a limit', () => {
    const { commands } = openMember()
    const block = defineBlock('all', { firstMs: 1, factor: 1, maxMs: 1, forgetMs: 1 })
    expect(send(commands, [takeOf(block)])).toBeInstanceOf(Buffer)
  })

  test('hears of others, and answers with its view', () => {
    const { commands, news } = openMember()
    expect(String(commands.run(['RING.HERE', 'b', 'view', 'mark']))).toBe('view too')
    commands.run(['RING.GO', 'b'])
    expect(news).toEqual(['b here', 'b gone'])
    expect(errorOf(commands.run(['RING.GO', '']))).toMatch(/^ERR /)
    expect(errorOf(commands.run(['RING.HERE', 'x'.repeat(301)]))).toMatch(/^ERR /)
  })

  test('answers every command it does not know, and counters it cannot read, with an error', () => {
    const { commands } = openMember()
    expect(errorOf(commands.run(['FLUSHALL']))).toMatch(/^ERR unknown command/)
    expect(errorOf(commands.run(['RING.HOME', 'no snapshot']))).toMatch(/^MISCONF /)
    expect(String(commands.run(['RING.STATUS']))).toBe('well')
    expect(String(commands.run(['PING']))).toBe('PONG')
  })
})
