/** Leases cost whole calls neither time, units, exactness nor the decision of another rule. */
import { describe, expect, test } from 'vitest'
import type { Decision } from '../../index.js'
import { call, perUser, user } from '../../limiter.test-helper.js'
import { settled } from '../../scripted-store.test-helper.js'
import { leased, type Node, nodeOf, window } from '../node.test-helper.js'

const both = (coordination: string, more: object = {}) => [
  { id: 'a', by: ['user'], limits: [window(500)], coordination, ...more },
  { id: 'b', by: ['user'], limits: [window(1000)], posture: 'closed' },
]

/** Answers each take after this time, or not at all if its deadline comes first. */
class Answers {
  readonly #node: Node
  #waiting: { readonly atMs: number; readonly answer: () => void }[] = []
  #nowMs = 0

  constructor(node: Node, afterMs: number) {
    const take = node.store.take.bind(node.store)
    this.#node = node
    node.store.take = async (groups, options) => {
      const deadlineMs = options?.deadlineMs ?? node.store.remote.deadlineMs
      const atMs = this.#nowMs + Math.min(afterMs, deadlineMs)
      await new Promise<void>((answer) => void this.#waiting.push({ atMs, answer }))
      if (afterMs <= deadlineMs) return take(groups, options)
      return groups.map((takes) => takes.map(() => 'unknown' as const))
    }
  }

  async pass(ms: number): Promise<void> {
    for (let i = 0; i < ms; i++) {
      this.#nowMs += 1
      this.#node.store.clock.advance(1)
      const due = this.#waiting.filter(({ atMs }) => atMs <= this.#nowMs)
      this.#waiting = this.#waiting.filter(({ atMs }) => atMs > this.#nowMs)
      for (const { answer } of due) answer()
      await settled()
    }
  }
}

describe('leased shadow rules', () => {
  test('a leased rule in shadow whose draw is not answered leaves the enforced rule to the store', async () => {
    const node = await nodeOf(both('leased', { mode: 'shadow' }))
    await node.warmUp()
    node.cutOff(500)
    expect(await node.check()).toMatchObject({ allowed: true, source: 'store' })
  })

  test('a leased rule in shadow is never waited for, however many there are', async () => {
    const shadows = [1, 2, 3, 4].map((i) => ({
      id: `s${i}`,
      by: ['user'],
      limits: [window(500 + i)],
      coordination: 'leased',
      mode: 'shadow',
    }))
    const node = await nodeOf([{ id: 'e', by: ['user'], limits: [window(1000)] }, ...shadows])
    await node.warmUp()
    node.store.isHeld = true
    const check = node.check()
    // All draws are sent before anything is answered, and the call itself is one trip.
    expect(node.store.requests.map(({ groups }) => groups.length)).toEqual([1, 1, 1, 1, 5])
    node.store.release()
    expect(await check).toMatchObject({ allowed: true, source: 'store' })
  })

  test('a leased candidate adds no wait to that of its rule if the store does not answer', async () => {
    const node = await nodeOf(leased(1000, { candidate: { limits: [window(900)] } }))
    await node.warmUp()
    const answers = new Answers(node, Infinity)
    const sources: string[] = []
    void node.check().then(({ source }) => sources.push(source))
    await answers.pass(20)
    expect(sources).toEqual(['posture'])
  })
})

describe('leased and exact rules together', () => {
  test('an unanswered draw of a leased rule does not take the answer from an exact one beside it', async () => {
    for (const coordination of ['exact', 'leased']) {
      const node = await nodeOf(both(coordination, { posture: 'open' }))
      await node.warmUp()
      node.cutOff(500)
      expect(await node.check()).toMatchObject({ allowed: true, postures: { a: 'open' } })
    }
  })

  test('a leased rule beside an exact one needs one round trip: what no lease serves is sent with the rest', async () => {
    const node = await nodeOf(both('leased'))
    await node.warmUp()
    node.store.isHeld = true
    const check = node.check()
    // The draw for later calls, and the call itself with both limits.
    expect(node.store.requests.map(({ groups }) => groups[0]?.length)).toEqual([1, 2])
    node.store.release()
    expect(await check).toMatchObject({ allowed: true, source: 'store' })
    expect(node.store.requests).toHaveLength(2)
  })
})

describe('deadlines of leased calls', () => {
  test('a draw has the deadline of the rule if that is shorter than the store’s', async () => {
    const node = await nodeOf(leased(1000, { deadline: '5ms' }))
    await node.warmUp()
    await node.check()
    expect(node.store.requests.map(({ options }) => options?.deadlineMs)).toEqual([5])
  })

  test('a draw has the deadline of the rule if that is longer than the store’s', async () => {
    const node = await nodeOf(leased(1000, { deadline: '200ms', posture: 'closed' }))
    node.answerIn(50)
    const decisions = await node.many(50)
    expect(decisions.every(({ allowed }) => allowed)).toBe(true)
    expect(decisions.at(-1)?.source).toBe('lease')
  })

  test('the deadline of a call is never spent on two draws: a store that answers in time causes no fallback', async () => {
    const node = await nodeOf(leased(1000))
    await node.many(10)
    await node.pass(600)
    const answers = new Answers(node, 12)
    const calls: Promise<Decision>[] = []
    for (let ms = 0; ms < 200; ms++) {
      for (let i = 0; i < 3; i++) calls.push(node.check())
      await answers.pass(1)
    }
    await answers.pass(30)
    const sources = new Set((await Promise.all(calls)).map(({ source }) => source))
    expect(sources).toEqual(new Set(['store', 'lease']))
  })
})

describe('calls admitted during an unanswered draw', () => {
  test('calls that were admitted during an unanswered draw are not charged if it may have run, as by an exact rule', async () => {
    for (const coordination of ['exact', 'leased']) {
      const node = await nodeOf(leased(1000, { coordination }))
      await node.warmUp()
      node.store.all('ran')
      const decisions = await Promise.all(Array.from({ length: 30 }, () => node.check()))
      expect(decisions.every(({ source }) => source === 'posture')).toBe(true)
      node.store.recover()
      await node.check('u2')
      await node.pass(1000)
      expect(node.store.charges).toEqual([])
    }
  })

  test('calls that were admitted during an unanswered draw are counted once when its answer comes late', async () => {
    const node = await nodeOf(leased(1000))
    await node.warmUp()
    node.store.all('ran')
    const passed = await Promise.all(Array.from({ length: 6 }, () => node.check()))
    expect(passed.every(({ allowed }) => allowed)).toBe(true)
    node.store.recover()
    node.store.comeLate()
    await node.pass(2500)
    expect(node.stats()).toMatchObject({ held: 0, lost: 0 })
    expect(await node.used()).toBe(16)
  })

  test('calls that were admitted during an unanswered draw are charged if it certainly did not run, once draws are answered again', async () => {
    const node = await nodeOf([
      { id: 'hot', by: [], limits: [window(100_000)], coordination: 'leased' },
    ])
    const one = call({})
    const many = async (count: number) => {
      for (let i = 0; i < count; i++) await node.limiter.check(one)
    }
    await many(100)
    await node.pass(600)
    node.store.all('not-run')
    await many(3)
    expect(node.limiter.stats?.reportsWaiting).toBe(1)
    node.store.all('answer')
    for (let i = 0; i < 10; i++) {
      await many(50)
      await node.pass(50)
    }
    expect(node.limiter.stats?.reportsWaiting).toBe(0)
    expect(node.store.charges).toMatchObject([{ amount: 3 }])
  })

  test('calls during a draw whose answer cannot be read are all decided', async () => {
    const node = await nodeOf(leased(1000))
    await node.warmUp()
    const take = node.store.take.bind(node.store)
    node.store.take = async () => undefined as never
    const decisions = await Promise.all([node.check(), node.check()])
    expect(decisions.map(({ source }) => source)).toEqual(['posture', 'posture'])
    node.store.take = take
    expect((await node.check()).source).toBe('lease')
    await node.limiter.close()
  })
})

describe('callers at their limit', () => {
  test('a caller at its limit passes as soon as a call of it is refunded on this node', async () => {
    const node = await nodeOf(leased(1000))
    const { receipt = '' } = await node.limiter.check(user('u1', 300), { receipt: true })
    await node.many(750)
    expect((await node.check()).allowed).toBe(false)
    await node.limiter.refund(receipt)
    expect((await node.check()).allowed).toBe(true)
  })

  test('a caller at its limit gets the same answer from check and peek', async () => {
    const bucket = { max: 1000, window: '10s' }
    const node = await nodeOf(perUser([bucket], { coordination: 'leased' }))
    await node.many(1005)
    await node.pass(300)
    const decision = await node.check()
    expect(decision).toMatchObject({ allowed: false, source: 'lease' })
    const { allowed, source, remaining, retryAfterMs, staleMs } = decision
    const same = { allowed, source, remaining, retryAfterMs, staleMs }
    expect(await node.limiter.peek(user('u1'))).toMatchObject(same)
    expect(await node.limiter.explain(user('u1'))).toMatchObject(same)
    // A call with cost 0 is never refused, and shows what is left.
    expect(await node.limiter.peek(user('u1', 0))).toMatchObject({ allowed: true, remaining: 30 })
  })

  test('a caller at its limit is charged by a limit that charges refusals, as beside an exact rule', async () => {
    const left: (number | undefined)[] = []
    for (const coordination of ['exact', 'leased']) {
      const { limiter } = await nodeOf([
        { id: 'a', by: ['user'], limits: [window(100)], coordination },
        { id: 'b', by: ['ip'], limits: [window(200, { onRefusal: 'charge' })] },
      ])
      for (let i = 0; i < 180; i++) await limiter.check(call({ user: 'u1', ip: '192.0.2.1' }))
      const peeked = await limiter.peek(call({ user: 'u2', ip: '192.0.2.1' }))
      left.push(peeked.policies().find(({ rule }) => rule === 'b')?.remaining)
    }
    expect(left).toEqual([20, 20])
  })

  test('a caller at the limit of a split rule gets no more from the store, which never counted it', async () => {
    const { limiter } = await nodeOf([
      { id: 'a', by: ['user'], limits: [window(10)], coordination: 'split' },
      { id: 'b', by: ['ip'], limits: [window(200, { onRefusal: 'charge' })] },
    ])
    const decisions: Decision[] = []
    for (let i = 0; i < 30; i++) {
      decisions.push(await limiter.check(call({ user: 'u1', ip: '192.0.2.1' })))
    }
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10)
  })
})

describe('leased rules', () => {
  test('a leased rule calls the store no more often than an exact one for a slow caller', async () => {
    for (const everyMs of [1000, 600, 450]) {
      const node = await nodeOf(leased(10_000))
      for (let i = 0; i < 50; i++) {
        await node.check()
        await node.pass(everyMs)
      }
      expect(node.store.requests.length + node.store.gives.length).toBeLessThanOrEqual(50)
    }
  })

  test('a leased rule keeps the leases of all others when one caller gets limits of its own', async () => {
    const node = await nodeOf(leased(1000))
    for (let u = 0; u < 20; u++) await node.many(12, `u${u}`)
    const { held } = node.stats()
    const caller = new Map([['user', 'u1']])
    node.limiter.changeOverrides([{ rule: 'per-user', caller, override: undefined }])
    expect(node.store.gives).toEqual([])
    expect(node.stats().held).toBe(held)
    expect((await node.check('u2')).source).toBe('lease')
  })

  test('a leased rule that is closed while calls wait for its draw has the store decide them', async () => {
    const node = await nodeOf(leased(1000))
    await node.warmUp()
    node.store.isHeld = true
    const calls = Array.from({ length: 5 }, () => node.check())
    const closing = node.limiter.close()
    await settled()
    node.store.release()
    const sources = (await Promise.all(calls)).map(({ source }) => source)
    expect(new Set(sources)).toEqual(new Set(['store']))
    await closing
    expect(node.stats().held).toBe(0)
  })
})
