/** Simulates calls against limits that are not active: what each limit would decide. */
import {
  type Algorithm,
  algorithmOf,
  defineBlock,
  defineLimit,
  type Limit,
  limitSpecText,
  type LimitSpec,
  type Outcome,
  parseRules,
  stepOf,
  windowEndOf,
} from '@sluice/core'
import type { Problem } from '@sluice/core/config-reader'
import { CooperativeYield } from '../../lib/cooperative-yield.js'
import { Semaphore } from '../../lib/semaphore.js'
import { EditError, invalidError } from './edit-errors.js'

export interface SimulatedCall {
  /** From the start of the simulation. */
  readonly atMs: number
  /** @default 1 */
  readonly cost?: number | undefined
}

interface SimulatedOutcome {
  readonly allowed: boolean
  readonly delayMs: number
  readonly remaining: number
  readonly retryAfterMs: number | null
}

export interface LimitSimulation {
  readonly limit: string
  readonly algorithm: string
  readonly outcomes: readonly SimulatedOutcome[]
}

/** One at a time: the largest takes as long as tens of thousands of decisions. */
const semaphore = new Semaphore(1)
const WAITING_MAX = 8

/**
 * Simulates each limit alone, with a temporary counter. Windows that are aligned to the clock start
 * with the simulation. Rejects with an `EditError` that names every problem of every limit.
 */
export async function simulateLimits(
  limits: readonly unknown[],
  calls: readonly SimulatedCall[],
): Promise<readonly LimitSimulation[]> {
  const read = limits.map(readLimit)
  const problems = read.flatMap((each) => ('spec' in each ? [] : each.problems))
  if (problems.length > 0) throw invalidError('rules_invalid', problems)
  const specs = read.flatMap((each) => ('spec' in each ? [each.spec] : []))
  if (semaphore.waiting >= WAITING_MAX) {
    throw new EditError(
      'rules_unavailable',
      `${WAITING_MAX} simulations are waiting already. Try again`,
    )
  }
  return semaphore.run(async () => {
    const slices = new CooperativeYield()
    const simulations: LimitSimulation[] = []
    for (const spec of specs) simulations.push(await simulateLimit(spec, calls, slices))
    return simulations
  })
}

type ReadLimit = { readonly spec: LimitSpec } | { readonly problems: readonly Problem[] }

const RULE = 'simulation'

/** Parses the limit as the only one of a rule, so that problems read like those of rules. */
function readLimit(limit: unknown, index: number): ReadLimit {
  const { rules, errors } = parseRules([{ id: RULE, limits: [limit] }])
  const spec = rules?.rules[0]?.limits[0]
  if (spec === undefined) return { problems: errors.map((problem) => atIndex(problem, index)) }
  return spec.algorithm === 'concurrency' ? { problems: [inFlightProblem(index)] } : { spec }
}

/** Simulated calls have no length, so none of them is ever in flight with another. */
function inFlightProblem(index: number): Problem {
  const field = `limits[${index}].algorithm`
  const found = 'concurrency'
  const accepted = 'an algorithm that counts in time: simulated calls have no length'
  const message = `${field}: found ${found}. Accepted: ${accepted}`
  return { code: 'unknown-value', field, found, accepted, message }
}

/** Returns the problem with its place in the list of limits that was sent. */
function atIndex({ rule: _rule, ...problem }: Problem, index: number): Problem {
  const field = problem.field.replace(/^limits\[0\]/, `limits[${index}]`)
  const message = problem.message
    .replace(`rule "${RULE}": `, '')
    .replace(`${problem.field}: `, `${field}: `)
  return { ...problem, field, message }
}

async function simulateLimit(
  spec: LimitSpec,
  calls: readonly SimulatedCall[],
  slices: CooperativeYield,
): Promise<LimitSimulation> {
  const limit = defineLimit(spec)
  const algorithm = algorithmOf(limit)
  const counter = { state: undefined as unknown }
  const block = spec.block && simulateBlock(defineBlock(limit.name, spec.block))
  // The start of a window, but not 0, which no real clock shows.
  const beginning = windowEndOf(limit, limit.windowUs)
  const outcomes: SimulatedOutcome[] = []
  for (const { atMs, cost = 1 } of calls) {
    if (slices.isDue()) await slices.pause()
    const now = beginning + atMs * 1000
    const blockedMs = block?.left(cost, now) ?? 0
    if (blockedMs > 0) {
      outcomes.push({ allowed: false, delayMs: 0, remaining: 0, retryAfterMs: blockedMs })
      continue
    }
    const outcome = takeOne(algorithm, limit, counter, cost, now)
    const { delayMs, remaining } = outcome
    const waitMs = outcome.retryAfterMs
    const isOver = waitMs !== null && waitMs > 0
    const retryAfterMs = isOver ? Math.max(waitMs, block?.begin(cost, now) ?? 0) : waitMs
    outcomes.push({ allowed: retryAfterMs === 0, delayMs, remaining, retryAfterMs })
  }
  return { limit: limitSpecText(spec), algorithm: limit.algorithm, outcomes }
}

interface SimulatedBlock {
  /** How long the caller is still blocked, in milliseconds. */
  left(cost: number, now: number): number
  /** Begins a block and returns its length. */
  begin(cost: number, now: number): number
}

function simulateBlock(limit: Limit): SimulatedBlock {
  const algorithm = algorithmOf(limit)
  let state: unknown
  const left = (cost: number, now: number) =>
    algorithm.peek(state, limit, cost, now).retryAfterMs ?? 0
  return {
    left,
    begin: (cost, now) => {
      state = algorithm.charge(state, limit, cost, now, now, 0) ?? state
      return left(cost, now)
    },
  }
}

/** Takes one limit like a store does. */
function takeOne(
  algorithm: Algorithm<unknown>,
  limit: Limit,
  counter: { state: unknown },
  amount: number,
  now: number,
): Outcome {
  const overdraw = limit.onRefusal === 'overdraw'
  const step = stepOf({ limit, amount, overdraw }, counter.state, now)
  if (step.retryAfterMs === 0 || step.granted > 0) {
    counter.state = step.state ?? counter.state
    return step
  }
  counter.state = step.rebased ?? counter.state
  if (limit.onRefusal !== 'charge') return step
  counter.state = algorithm.charge(counter.state, limit, amount, now, now, 0) ?? counter.state
  return algorithm.peek(counter.state, limit, amount, now)
}
