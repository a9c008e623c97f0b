import { type CounterKey, defineLimit, type Limit } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { openCounters, type MemoryCounterStore } from '../memory/memory-store.js'
import { systemScheduler } from '../periodic.js'
import {
  type RedisChannel,
  type RedisCommand,
  type RedisReply,
  RedisReplyError,
} from '../redis/connection/driver.js'
import { manualClock } from '../testing/manual-clock.js'
import { Homing } from './homing.js'
import { PeerCommands } from './peer-commands.js'
import { REQUEST_BYTES_MAX } from './peer-server.js'

const clock = manualClock()
const window = defineLimit({ algorithm: 'fixed-window', max: 1000, windowMs: 86_400_000 })

const key = (n: number): CounterKey => ({
  hi: Math.imul(n + 1, 0x9e3779b1),
  lo: Math.imul(n + 1, 0x85ebca6b),
  partition: 3,
})

function countersOf(limits: readonly Limit[]): MemoryCounterStore {
  const counters = openCounters({ clock })
  for (const [n, limit] of limits.entries()) {
    counters.charge({ key: key(n), limit, amount: 1, at: clock.now(), debt: 0 })
  }
  return counters
}

const log = defineLimit({ algorithm: 'sliding-window-log', max: 10_000, windowMs: 86_400_000 })

function logsOf(entries: readonly number[]): MemoryCounterStore {
  const counters = openCounters({ clock })
  const states = entries.map((count) =>
    Array.from({ length: count }, (_, n) => [clock.now() - count + n, 1]).flat(),
  )
  counters.merge(states.map((state, n) => ({ key: key(n), limit: log, state, isDurable: false })))
  return counters
}

/** Sends to another store, as a member that accepts requests of the usual length. */
class Peer implements RedisChannel {
  readonly address = 'peer'
  readonly isReady = true
  readonly counters = openCounters({ clock })
  readonly lengths: number[] = []
  isLeaving = false
  answer: ((command: RedisCommand) => RedisReply | RedisReplyError) | undefined
  readonly #commands = new PeerCommands({
    counters: this.counters,
    clock,
    onUse: () => {},
    onReceived: () => {},
    isLeaving: () => this.isLeaving,
    status: () => '',
    onHere: () => '',
    onGone: () => {},
  })

  send(...[commands, settle]: Parameters<RedisChannel['send']>): boolean {
    for (const [index, command] of commands.entries()) {
      this.lengths.push(command.bytes().length)
      const reply = this.answer?.(command) ?? this.#commands.run(command.words())
      queueMicrotask(() => settle(index, reply))
    }
    return true
  }

  reconnect(): void {}
}

function homingTo(channel: RedisChannel | undefined, counters: MemoryCounterStore) {
  const fates = { sent: 0, unknown: 0 }
  const problems: string[] = []
  const homing = new Homing({
    counters,
    clock,
    scheduler: systemScheduler,
    isOwn: () => false,
    ownerChannel: () => channel,
    onHandedOver: (fate, count) => void (fates[fate] += count),
    onProblem: (message) => void problems.push(message),
  })
  return { homing, fates, problems }
}

describe('counters that go home', () => {
  test('are never in a message that is longer than a member accepts', async () => {
    const limits = Array.from({ length: 1500 }, (_, n) =>
      defineLimit({ algorithm: 'fixed-window', max: 1000 + n, windowMs: 86_400_000 }),
    )
    for (const counters of [logsOf([9500, 9500, 9500]), countersOf(limits)]) {
      const peer = new Peer()
      const before = counters.stats().counters
      const { homing, fates } = homingTo(peer, counters)
      expect(await homing.sweep()).toBe(true)
      expect(Math.max(...peer.lengths)).toBeLessThanOrEqual(REQUEST_BYTES_MAX)
      expect(fates).toEqual({ sent: before, unknown: 0 })
      expect(peer.counters.stats().counters).toBe(before)
    }
  })

  test('may be as long as the longest log that two members kept', async () => {
    const peer = new Peer()
    expect(await homingTo(peer, logsOf([20_000])).homing.sweep()).toBe(true)
    expect(Math.max(...peer.lengths)).toBeLessThanOrEqual(REQUEST_BYTES_MAX)
  })

  test('stay where the owner cannot read them, and say so', async () => {
    const counters = countersOf(Array.from({ length: 3000 }, () => window))
    const peer = new Peer()
    peer.answer = () => new RedisReplyError('MISCONF snapshot: found another version')
    const { homing, fates, problems } = homingTo(peer, counters)
    expect(await homing.sweep()).toBe(false)
    expect(homing.misplaced).toBe(3000)
    expect(counters.stats().counters).toBe(3000)
    expect(fates).toEqual({ sent: 0, unknown: 0 })
    expect(problems[0]).toContain('peer takes no counters: MISCONF snapshot')
    expect(peer.lengths.length).toBeLessThanOrEqual(2)
    peer.answer = undefined
    expect(await homing.sweep()).toBe(true)
    expect(peer.counters.stats().counters).toBe(3000)
  })

  test('stay where they are while their owner leaves too', async () => {
    const counters = countersOf([window, window])
    const peer = new Peer()
    peer.isLeaving = true
    const { homing, fates, problems } = homingTo(peer, counters)
    expect(await homing.sweep()).toBe(false)
    expect([counters.stats().counters, peer.counters.stats().counters]).toEqual([2, 0])
    expect(fates).toEqual({ sent: 0, unknown: 0 })
    expect(problems).toEqual([])
  })

  test('are looked for in turns, so that calls are decided meanwhile', async () => {
    const counters = countersOf(Array.from({ length: 40_000 }, () => window))
    const { homing } = homingTo(undefined, counters)
    let turns = 0
    const count = () => {
      turns += 1
      immediate = setImmediate(count)
    }
    let immediate = setImmediate(count)
    expect(await homing.sweep()).toBe(false)
    clearImmediate(immediate)
    expect(turns).toBeGreaterThan(2)
  })
})
