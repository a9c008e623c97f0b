import type { PlannedTake } from '@sluice/core'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Fate, settled } from '../../scripted-store.test-helper.js'
import type { NodeOutcome, UnansweredDraw, DrawResult } from '../node-decider.js'
import { leaseMs } from './lease.js'
import { costing, isBalanced, LeasingNode, takeOf } from './leases.test-helper.js'
import { propertyRuns } from '../../../../../tools/property-runs.js'

/** `npm run test:long` multiplies the number of generated traces by this. */
const RUNS = propertyRuns(300)

const algorithm = fc.constantFrom('fixed-window', 'sliding-window-counter', 'token-bucket')
const limitOf = (algorithms: fc.Arbitrary<string>) =>
  fc.record({
    algorithm: algorithms,
    max: fc.integer({ min: 5, max: 400 }),
    window: fc.constantFrom('400ms', '4s', '1h'),
  })
const maxStranded = fc.constantFrom(0.05, 0.2, 0.5)

const ms = fc.integer({ min: 1, max: 700 })
const calls = fc.record({
  kind: fc.constant('calls' as const),
  user: fc.constantFrom('u1', 'u2'),
  costs: fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 12 }),
  /** Whether another limit refuses the call, at once or later. */
  refused: fc.constantFrom<('no' | 'at-once' | 'later')[]>('no', 'no', 'no', 'at-once', 'later'),
  mayWait: fc.boolean(),
})
const passing = fc.record({ kind: fc.constantFrom('pass' as const, 'freeze' as const), ms })
const asleep = fc.record({ kind: fc.constant('suspend' as const), ms })
const stepping = fc.record({
  kind: fc.constant('wall' as const),
  ms: fc.integer({ min: -5000, max: 5000 }),
})
const fates = fc.record({
  kind: fc.constant('fate' as const),
  fate: fc.constantFrom<Fate[]>('answer', 'answer', 'ran', 'lost', 'not-run'),
})
const hold = fc.constantFrom(...(['hold', 'release', 'late', 'refuse', 'rules'] as const))
/** How calls without an answer of the store are decided. */
const posture = fc.constantFrom('refuse' as const, 'admit' as const)
const turn = hold.map((kind) => ({ kind }))
const fleet = fc.record({ kind: fc.constant('fleet' as const), n: fc.integer({ min: 1, max: 4 }) })
const ordinary = [calls, calls, calls, passing, fates, turn, fleet] as const
/** One clock of two may be wrong at a time. */
const clocked = fc.oneof(
  fc.array(fc.oneof(...ordinary, asleep), { maxLength: 40 }),
  fc.array(fc.oneof(...ordinary, stepping), { maxLength: 40 }),
)
const losing = fc.record({
  kind: fc.constantFrom(
    ...(['reset', 'gives-fail', 'gives-vanish', 'gives-work', 'silence', 'answers'] as const),
  ),
})
const faulty = fc.array(fc.oneof(...ordinary, losing), { maxLength: 40 })

interface Calls {
  kind: 'calls'
  user: string
  costs: number[]
  refused: 'no' | 'at-once' | 'later'
  mayWait: boolean
}

type Step =
  | Calls
  | { kind: 'pass' | 'freeze' | 'suspend' | 'wall'; ms: number }
  | { kind: 'fate'; fate: Fate }
  | { kind: 'fleet'; n: number }
  | { kind: Turn }

type Turn =
  | 'hold'
  | 'release'
  | 'late'
  | 'refuse'
  | 'rules'
  | 'reset'
  | 'gives-fail'
  | 'gives-vanish'
  | 'gives-work'
  | 'silence'
  | 'answers'

/** Decides as the limiter does, and counts what was granted to admitted calls. */
class Caller {
  readonly node = new LeasingNode()
  #takes: ReadonlyMap<string, PlannedTake>
  readonly #mayLast: number
  /** By the timestamp of the units. */
  readonly granted: { readonly user: string; readonly units: number; readonly at: number }[] = []
  #unrefused: (() => void)[] = []
  /** Units of calls admitted without an answer: the store may have taken them. */
  readonly letPass = new Map<string, number>()
  readonly #posture: 'refuse' | 'admit'
  readonly #compile: () => ReadonlyMap<string, PlannedTake>
  #failure: unknown

  constructor(limit: object, stranded: number, silence: 'refuse' | 'admit' = 'refuse') {
    const take = (user: string) => takeOf(limit, { user, maxStranded: stranded })
    this.#posture = silence
    this.#compile = () => {
      const first = take('u1')
      // One compiled limit, as callers of one rule have it.
      const second = { ...take('u2'), of: first.compiled, limit: first.limit }
      return new Map([
        ['u1', first],
        ['u2', second],
      ])
    }
    this.#takes = this.#compile()
    this.#mayLast = leaseMs(this.takeOf('u1').compiled.immediate) * 1000
  }

  takeOf(user: string): PlannedTake {
    const take = this.#takes.get(user)
    if (take === undefined) throw new Error(`nobody is called ${user}`)
    return take
  }

  async step(step: Step): Promise<void> {
    const { node } = this
    if (step.kind === 'calls') for (const cost of step.costs) this.ask(step, cost)
    else if (step.kind === 'pass') await node.pass(step.ms)
    else if (step.kind === 'freeze') node.freeze(step.ms)
    else if (step.kind === 'suspend') node.suspend(step.ms)
    else if (step.kind === 'wall') node.wallAheadMs += step.ms
    else if (step.kind === 'fate') node.store.all(step.fate)
    else if (step.kind === 'fleet') node.fleet = step.n
    else await this.turn(step.kind)
    await settled()
    if (this.#failure !== undefined) throw this.#failure
  }

  /** Runs until nothing can change any more. */
  async end(): Promise<void> {
    this.node.store.all('answer')
    await this.turn('release')
    await this.turn('late')
    await this.turn('refuse')
    await settled()
    await this.node.leases.close()
  }

  private async turn(kind: Turn): Promise<void> {
    const { store, leases } = this.node
    if (kind === 'hold') store.isHeld = true
    else if (kind === 'release') store.release()
    else if (kind === 'late') store.comeLate()
    else if (kind === 'refuse') for (const refuse of this.#unrefused.splice(0)) refuse()
    else if (kind === 'rules') this.#takes = this.#compile()
    else if (kind === 'gives-fail') store.script.verbError = new Error('gone')
    else if (kind === 'gives-vanish') {
      store.script.verbError = Object.assign(new Error('cut'), { silence: 'unknown' })
    } else if (kind === 'gives-work') store.script.verbError = undefined
    else if (kind === 'silence' || kind === 'answers') this.node.isAnswering = kind === 'answers'
    else leases.forget(this.takeOf('u1').key)
    await settled()
  }

  private ask({ user, refused, mayWait }: Calls, cost: number): void {
    const take = costing(this.takeOf(user), cost)
    const answer = this.node.take(take, mayWait ? undefined : 0)
    const decide = (waited: DrawResult | undefined) => {
      if (waited === undefined || waited === 'store') this.askStore(user, take)
      else if ('silence' in waited) this.silent(user, take, waited)
      else this.spent(user, take, waited, refused)
    }
    if (!(answer instanceof Promise)) decide(answer)
    else {
      answer.then(decide).catch((error: unknown) => {
        this.#failure ??= error
      })
    }
  }

  private silent(user: string, { amount }: PlannedTake, draw: UnansweredDraw): void {
    if (this.#posture === 'refuse') return
    draw.onAdmitted()
    this.letPass.set(user, (this.letPass.get(user) ?? 0) + amount)
  }

  private askStore(user: string, take: PlannedTake): void {
    const { store, leases } = this.node
    const [[answer] = []] = store.inner.sync.take([[take]])
    if (answer === undefined) return
    leases.learn(take, answer)
    if (answer.granted > 0) this.granted.push({ user, units: answer.granted, at: answer.at })
  }

  private spent(
    user: string,
    take: PlannedTake,
    outcome: NodeOutcome,
    refused: 'no' | 'at-once' | 'later',
  ): void {
    const { granted: units, at } = outcome
    if (units === 0) {
      expect(outcome.retryAfterMs).toBeGreaterThan(0)
      return
    }
    expect(units).toBe(take.amount)
    this.checkEnd(take, at)
    const putBack = () => this.node.leases.putBack(take, outcome)
    if (refused === 'no') this.granted.push({ user, units, at })
    else if (refused === 'at-once') putBack()
    else this.#unrefused.push(putBack)
  }

  /** By the store's own clock, which nothing else reads. */
  private checkEnd({ compiled: of }: PlannedTake, at: number): void {
    const now = this.node.store.clock.now()
    const { algorithm: name, windowUs } = of.immediate
    expect(now - at).toBeLessThan(this.#mayLast)
    if (name === 'token-bucket') return
    expect(Math.floor(now / windowUs)).toBe(Math.floor(at / windowUs))
  }
}

describe('for all sequences of calls, refusals and lost or late answers', () => {
  test('every drawn unit is accounted for, and nothing is spent after expiry or beyond what was drawn', async () => {
    await fc.assert(
      fc.asyncProperty(
        limitOf(algorithm),
        maxStranded,
        clocked,
        posture,
        async (limit, stranded, steps, silence) => {
          const caller = new Caller(limit, stranded, silence)
          for (const step of steps) {
            await caller.step(step)
            expect(isBalanced(caller.node.stats)).toBe(true)
          }
          await caller.end()
          expect(isBalanced(caller.node.stats)).toBe(true)
          expect(caller.node.stats).toMatchObject({ held: 0, lost: 0, counters: 0 })
          expect(caller.node.timers).toBe(0)
        },
      ),
      { numRuns: RUNS },
    )
  })

  test('a window of the store counts exactly what was granted in it, once all is settled', async () => {
    const fixed = limitOf(fc.constant('fixed-window'))
    await fc.assert(
      fc.asyncProperty(
        fixed,
        maxStranded,
        clocked,
        posture,
        async (limit, stranded, steps, silence) => {
          const caller = new Caller(limit, stranded, silence)
          for (const step of steps) await caller.step(step)
          await caller.end()
          const { node, granted, letPass } = caller
          for (const user of ['u1', 'u2']) {
            const take = caller.takeOf(user)
            const { windowUs } = take.compiled.immediate
            const start = Math.floor(node.store.clock.now() / windowUs) * windowUs
            const spent = granted
              .filter((each) => each.user === user && each.at >= start)
              .reduce((sum, { units }) => sum + units, 0)
            expect(node.used(take)).toBeGreaterThanOrEqual(spent)
            // Plus what draws took for calls that were admitted without an answer.
            expect(node.used(take)).toBeLessThanOrEqual(spent + (letPass.get(user) ?? 0))
            expect(spent).toBeLessThanOrEqual(take.limit.max)
          }
        },
      ),
      { numRuns: RUNS },
    )
  })

  test('held units never exceed maxStranded', async () => {
    await fc.assert(
      fc.asyncProperty(limitOf(algorithm), maxStranded, clocked, async (limit, stranded, steps) => {
        const caller = new Caller(limit, stranded)
        const most = Math.floor(stranded * caller.takeOf('u1').limit.capacity)
        for (const step of steps) {
          if (step.kind !== 'fleet') await caller.step(step)
          expect(caller.node.stats.held).toBeLessThanOrEqual(2 * most)
        }
        await caller.end()
      }),
      { numRuns: RUNS },
    )
  })

  test('resets and failed returns lose units, and never create any', async () => {
    await fc.assert(
      fc.asyncProperty(limitOf(algorithm), maxStranded, faulty, async (limit, stranded, steps) => {
        const caller = new Caller(limit, stranded)
        for (const step of steps) {
          await caller.step(step)
          expect(isBalanced(caller.node.stats)).toBe(true)
        }
        await caller.end()
        expect(isBalanced(caller.node.stats)).toBe(true)
        expect(caller.node.stats.held).toBe(0)
      }),
      { numRuns: RUNS },
    )
  })
})
