/** A limiter with coordinated rules over a scripted store, in time that a test moves. */
import { createLimiter, type Decision, type Limiter } from '../index.js'
import { perUser, user } from '../limiter.test-helper.js'
import { FakeScheduler } from '../redis/connection/channel.test-helper.js'
import { ScriptedStore } from '../scripted-store.test-helper.js'
import type { Answer } from '../store.js'
import type { CoordinationStats } from './node-decider.js'
import { emptyStats } from './coordination-stats.js'

export const window = (max: number, more: object = {}) => ({
  algorithm: 'fixed-window',
  max,
  window: '1h',
  ...more,
})

export const leased = (max: number, more: object = {}) =>
  perUser([window(max)], { coordination: 'leased', ...more })

export class Node {
  readonly store = new ScriptedStore({ denyCacheMs: 1000 })
  readonly scheduler = new FakeScheduler()
  readonly limiter: Limiter

  constructor(rules: object) {
    const { store, scheduler } = this
    const monotonicMs = () => store.clock.now() / 1000
    this.limiter = createLimiter({ rules, store, clock: store.clock, monotonicMs, scheduler })
  }

  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 10) {
      this.store.clock.advance(Math.min(10, left))
      await this.scheduler.advance(Math.min(10, left))
    }
  }

  async check(name = 'u1', cost?: number): Promise<Decision> {
    return this.limiter.check(user(name, cost))
  }

  /** Checks `count` calls in sequence. */
  async many(count: number, name = 'u1'): Promise<Decision[]> {
    const decisions: Decision[] = []
    for (let i = 0; i < count; i++) decisions.push(await this.check(name))
    return decisions
  }

  /** Makes enough calls to draw leases, and waits until they are returned. */
  async warmUp(): Promise<void> {
    await this.many(10)
    await this.pass(600)
    this.store.requests.length = 0
  }

  /** The count of the only limit in the store. */
  async used(name = 'u1'): Promise<number> {
    const { limiter } = this
    const inspected = await limiter.inspect('per-user', user(name))
    const state = inspected.counters[0]?.state
    return (state as { readonly count: number } | null)?.count ?? 0
  }

  stats(rule = 'per-user'): CoordinationStats {
    return this.limiter.stats?.coordination.get(rule) ?? emptyStats()
  }

  /**
   * Delays the store's answers by `ms`; beyond the deadline it does not answer. Clocks advance too.
   */
  answerIn(ms: number): void {
    const take = this.store.take.bind(this.store)
    this.store.take = async (groups, options) => {
      const deadlineMs = options?.deadlineMs ?? this.store.remote.deadlineMs
      this.store.clock.advance(Math.min(ms, deadlineMs))
      if (ms <= deadlineMs) return take(groups, options)
      return groups.map((takes) => takes.map(() => 'unknown' as const))
    }
  }

  /** Makes the shard of limits with this max stop answering; all others answer. */
  cutOff(max: number): void {
    const take = this.store.take.bind(this.store)
    this.store.take = async (groups, options) => {
      const answers: Answer[][] = []
      for (const takes of groups) {
        const row: Answer[] = []
        for (const each of takes) {
          const answered = each.limit.max === max ? undefined : await take([[each]], options)
          row.push(answered?.[0]?.[0] ?? 'unknown')
        }
        answers.push(row)
      }
      return answers
    }
  }
}

export async function nodeOf(rules: object): Promise<Node> {
  const node = new Node(rules)
  await node.limiter.ready()
  return node
}
