/**
 * Plays a scenario on limiters over different stores, step by step on each, and stops at the first
 * step at which they differ.
 */
import { type OverrideChange, parseRules } from '@sluice/core'
import {
  type Clock,
  createLimiter,
  type Decision,
  type Limiter,
  memoryStore,
  type Policy,
  SluiceError,
} from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'
import { type ManualClock, manualClock } from '@sluice/limiter/testing'
import type { RedisServer } from '../../tools/redis/server.mjs'
import { waitFor } from '../../tools/redis/wait-for.js'
import type { OverrideStep, Rules, Scenario, Step } from './differential-scenario.test-helper.js'

export interface Place {
  readonly name: string
  readonly url: string
  /** All servers that hold keys. */
  readonly servers: readonly RedisServer[]
}

/** The result of a step, in a form that can be compared. */
type Result = Readonly<Record<string, unknown>>

export interface Difference {
  /** The number of the step, from 0. */
  readonly at: number
  readonly place: string
  readonly memory: Result
  readonly other: Result
}

const SECRET = Buffer.from('101112131415161718191a1b1c1d1e1f', 'hex')
/** No decision may be made by posture, however busy the machine is. */
const DEADLINE_MS = 60_000

interface Contestant {
  readonly name: string
  readonly limiter: Limiter
  /** The errors of its store, which explain a decision by posture. */
  readonly events: readonly string[]
  /** Receipts, the newest last; undefined where nothing was taken. */
  readonly receipts: (string | undefined)[]
}

let prefixes = 0

/** The first difference; undefined if there is none. */
export async function playScenario(
  scenario: Scenario,
  places: readonly Place[],
): Promise<Difference | undefined> {
  const clock = manualClock(scenario.startUs)
  const keeper = new KeyKeeper(places.flatMap(({ servers }) => servers))
  const contestants = await openAll(scenario, places, clock)
  try {
    const passer = new TimeKeeper(clock)
    for (const [at, step] of scenario.steps.entries()) {
      await keeper.keep()
      if (passer.advance(step)) continue
      const results = await Promise.all(contestants.map((each) => run(each, step, at)))
      const [memory = {}, ...others] = results
      for (const [index, other] of others.entries()) {
        const place = contestants[index + 1]?.name ?? ''
        if (isSame(memory, other)) continue
        keeper.requireKept()
        return { at, place, memory, other }
      }
      passer.record(memory)
    }
    return undefined
  } finally {
    await Promise.all(contestants.map(({ limiter }) => limiter.close()))
    await keeper.forget()
  }
}

async function openAll(
  { rules, layout, denyCacheMs }: Scenario,
  places: readonly Place[],
  clock: Clock,
): Promise<readonly Contestant[]> {
  prefixes += 1
  const prefix = `differential-${prefixes}`
  const remote = places.map(({ name, url, servers }) => {
    const events: string[] = []
    const observer = {
      error: (code: string, address: string) => void events.push(`${address}: ${code}`),
      problem: (message: string) => void events.push(message),
      breakerOpened: (address: string) => void events.push(`${address}: breaker opened`),
    }
    const deadlineMs = DEADLINE_MS
    const store = redisStore({ url, prefix, layout, denyCacheMs, clock, deadlineMs, observer })
    return { name, store, events, nodes: servers.length }
  })
  const memory = { name: 'memory', store: memoryStore({ clock }), events: [] }
  const all = [memory, ...remote].map(({ name, store, events }) => {
    const limiter = createLimiter({ rules: [...rules], store, clock, secret: SECRET })
    return { name, limiter, events, receipts: [] }
  })
  await Promise.all(all.map(({ limiter }) => limiter.ready()))
  // A store is ready when one node answers; calls for the others go by posture until they do.
  for (const { name, store, nodes } of remote) {
    await waitFor(`${nodes} nodes of ${name} that answer`, async () => {
      return store.stats().nodes.filter(({ isAnswering }) => isAnswering).length === nodes
    })
  }
  return all
}

/** The clock of all limiters. It stands still while they answer. */
class TimeKeeper {
  readonly #clock: ManualClock
  #retryMs = 0

  constructor(clock: ManualClock) {
    this.#clock = clock
  }

  /** Whether the step is one of time. */
  advance(step: Step): boolean {
    if (step.act === 'pass') this.#clock.set(this.#clock.now() + step.us)
    else if (step.act === 'pass-retry')
      this.#clock.advance(Math.max(0, this.#retryMs - step.lessMs))
    else return false
    return true
  }

  record({ retryAfterMs }: Result): void {
    if (typeof retryAfterMs === 'number' && retryAfterMs > 0) this.#retryMs = retryAfterMs
  }
}

/**
 * Keeps keys from expiring by the clock of the machine, which is unrelated to that of the test: a
 * key lives for at least four seconds after it was written.
 */
class KeyKeeper {
  readonly #servers: readonly RedisServer[]
  #keptAtMs = performance.now()

  constructor(servers: readonly RedisServer[]) {
    this.#servers = servers
  }

  async keep(): Promise<void> {
    const nowMs = performance.now()
    if (nowMs - this.#keptAtMs < KEEP_EVERY_MS) return
    // Called at the end: keys written meanwhile must not have expired.
    await Promise.all(this.#servers.map((server) => server.call('EVAL', KEEP, '0')))
    this.requireKept()
    this.#keptAtMs = nowMs
  }

  requireKept(): void {
    const tookMs = performance.now() - this.#keptAtMs
    if (tookMs > LIVES_MS) throw new TooSlowError(tookMs)
  }

  async forget(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.call('FLUSHALL')))
  }
}

const KEEP_EVERY_MS = 500
const LIVES_MS = 4000
const KEEP = `for _, key in ipairs(redis.call('KEYS', 'differential-*')) do
  if redis.call('PTTL', key) > 0 then redis.call('PEXPIRE', key, '3600000') end
end`

/** The machine stalled for so long that keys may have expired, so the run proves nothing. */
export class TooSlowError extends Error {
  constructor(tookMs: number) {
    super(`The machine stalled for ${Math.round(tookMs)} ms, and counters may have expired`)
    this.name = 'TooSlowError'
  }
}

async function run(contestant: Contestant, step: Step, at: number): Promise<Result> {
  try {
    return await act(contestant, step)
  } catch (error) {
    if (!(error instanceof SluiceError) || error.code === 'STORE_FAILED') {
      const place = `step ${at}, ${JSON.stringify(step)}`
      const met = contestant.events.join('; ')
      throw new Error(`${contestant.name} failed at ${place} (${met})`, { cause: error })
    }
    return { error: error.code }
  }
}

async function act({ name, limiter, receipts }: Contestant, step: Step): Promise<Result> {
  switch (step.act) {
    case 'check': {
      const { call, canWait, gate } = step
      const decision = await limiter.check(call, { receipt: true, canWait, gate })
      receipts.push(decision.receipt)
      return resultOf(name, decision)
    }
    case 'peek':
      return resultOf(name, await limiter.peek(step.call))
    case 'explain':
      return explained(resultOf(name, await limiter.explain(step.call)))
    case 'limits':
      return { limits: await limiter.limits(step.call) }
    case 'refund-receipt': {
      const receipt = receipts.at(-1 - step.back)
      if (receipt === undefined) return {}
      await limiter.refund(receipt)
      return {}
    }
    case 'refund-call':
      await limiter.refund(step.call)
      return {}
    case 'reset':
      await limiter.reset(step.call, { rule: step.rule })
      return {}
    case 'rules':
      return { warnings: limiter.setRules([...step.rules]).length }
    case 'overrides':
      limiter.changeOverrides(step.changes.flatMap(changeOf))
      return {}
    case 'pass':
    case 'pass-retry':
      throw new Error('time passes for all at once: see Passer')
  }
}

/** An override as the limiter takes it: parsed, as part of a rule that counts the same. */
function changeOf({ rule, caller, limits }: OverrideStep): readonly OverrideChange[] {
  const of = { rule, caller: new Map(Object.entries(caller)) }
  if (limits === undefined) return [{ ...of, override: undefined }]
  const parsed = parseRules([
    { id: rule, by: Object.keys(caller), limits: ['1/second'], overrides: [{ caller, limits }] },
  ])
  const override = parsed.rules?.rules[0]?.overrides[0]
  return override === undefined ? [] : [{ ...of, override }]
}

/** Every field of a decision, and every number in headers and metrics. */
function resultOf(name: string, decision: Decision): Result {
  if (decision.source === 'posture' || decision.postures !== undefined) {
    throw new Error(`${name} answered by posture: ${JSON.stringify(decision)}`)
  }
  const { receipt, explain, source, staleMs: _stale, ...fields } = decision
  const rules: unknown[] = []
  decision.eachRule((rule, outcome) => rules.push([rule, outcome]))
  return {
    ...pick(fields),
    source,
    hasReceipt: receipt !== undefined,
    policies: decision.policies(),
    rules,
    bound: decision.bound() ?? null,
    explain,
  }
}

function pick(decision: Omit<Decision, 'source' | 'receipt' | 'explain' | 'staleMs'>): Result {
  const { allowed, reason, rule, limitName, limit } = decision
  const { remaining, resetAfterMs, retryAfterMs, delayMs, shadow } = decision
  return {
    allowed,
    reason,
    rule,
    limitName,
    limit,
    remaining,
    resetAfterMs,
    retryAfterMs,
    delayMs,
    shadow,
  }
}

/** A state without meaning may be kept or not, and in one of several forms. */
function explained(result: Result): Result {
  const explain = (result['explain'] as Decision['explain']) ?? []
  return {
    ...result,
    explain: explain.map(({ limits, ...rule }) => ({
      ...rule,
      limits: limits.map(({ state: _state, ...limit }) => limit),
    })),
  }
}

function isSame(memory: Result, other: Result): boolean {
  if (other['source'] === 'deny-cache') return isKnownRefusal(memory, other)
  const [before, after] = [memory, other].map(policiesOf)
  const isRefused = other['allowed'] === false && before?.length === after?.length
  const expected = isRefused ? { ...memory, policies: before?.map(given(after)) } : memory
  return JSON.stringify(expected) === JSON.stringify(other)
}

/**
 * What a limit with room may return in a call that others refused. A Cluster has taken from it and
 * given back, without another request: the reset is that of the call, which no client sees; and if
 * the call would have had to wait, no less is reported as left than there is.
 */
function given(after: readonly Policy[] = []): (before: Policy, index: number) => Policy {
  return (before, index) => {
    const found = after[index]
    if (before.retryAfterMs !== 0 || found === undefined) return before
    const mayWait = WAITING.includes(before.algorithm) && found.remaining > before.remaining
    const remaining = mayWait ? found.remaining : before.remaining
    return { ...before, remaining, resetAfterMs: found.resetAfterMs }
  }
}

const WAITING: readonly string[] = ['token-bucket', 'gcra', 'leaky-bucket']

const policiesOf = (result: Result) => result['policies'] as readonly Policy[] | undefined

/**
 * A remembered refusal is computed from earlier states of the limits that refused, and of no
 * others. Since then units may have been taken and none given back, so each of these limits refuses
 * the call for as long or longer, and has no more left.
 */
function isKnownRefusal(memory: Result, other: Result): boolean {
  const policies = memory['policies'] as readonly Policy[]
  const known = other['policies'] as readonly Policy[]
  return (
    memory['allowed'] === false &&
    known.length > 0 &&
    known.every((stale) => {
      const now = policies.find(({ name }) => name === stale.name)
      return (
        now !== undefined &&
        now.limit === stale.limit &&
        now.remaining <= stale.remaining &&
        (now.retryAfterMs ?? Infinity) + LOG_ROUNDS_MS >= (stale.retryAfterMs ?? Infinity)
      )
    })
  )
}

/** For a log the time of its next room is remembered in whole milliseconds. */
const LOG_ROUNDS_MS = 1

/** Whether a limiter accepts the rules. */
export function loads(rules: Rules): boolean {
  return parseRules([...rules]).errors.length === 0
}
