/** Blocks and windows that begin with a call, for some limits of exact rules. */
import type { Random } from './random.js'
import type { BlockText, LimitText, RuleSpec } from './scenario.js'

/** Short enough that a run has blocks that end, and blocks in a row that are forgotten. */
const FIRST_MS = [250, 400, 1000] as const
const FORGET_MS = [250, 1000, 5000] as const
const BLOCKING = 0.4
const STARTING_BY_CALL = 0.5

export function withBlocks(random: Random, rules: readonly RuleSpec[]): readonly RuleSpec[] {
  return rules.map((rule) => (rule.coordination === 'exact' ? withBlock(random, rule) : rule))
}

/** Limits of one name use one counter, so tiers have the start and the block of the rule. */
function withBlock(random: Random, rule: RuleSpec): RuleSpec {
  const { tiers, candidate } = rule
  const limits = rule.limits.map((limit) => ({ ...limit, ...generateParts(random, limit) }))
  const like = (limit: LimitText, i: number): LimitText => {
    const { start, block } = limits[i] ?? limit
    return { ...limit, ...(start && { start }), ...(block && { block }) }
  }
  return {
    ...rule,
    limits,
    ...(tiers && { tiers: { plan: mapValues(tiers.plan, (each) => each.map(like)) } }),
    ...(candidate && {
      candidate: {
        limits: candidate.limits.map((limit) => ({ ...limit, ...generateParts(random, limit) })),
      },
    }),
  }
}

function generateParts(
  random: Random,
  { algorithm }: LimitText,
): Pick<LimitText, 'start' | 'block'> {
  const startsByCall = random.chance(STARTING_BY_CALL) && algorithm === 'fixed-window'
  return {
    ...(startsByCall ? { start: 'call' } : {}),
    ...(random.chance(BLOCKING) ? { block: generateBlock(random) } : {}),
  }
}

function generateBlock(random: Random): BlockText {
  const first = random.pick(FIRST_MS)
  const factor = random.int(1, 3)
  const max = first * random.int(1, 4)
  return { first: `${first}ms`, factor, max: `${max}ms`, forget: `${random.pick(FORGET_MS)}ms` }
}

function mapValues<Value, Result>(
  record: Readonly<Record<string, Value>>,
  change: (value: Value) => Result,
): Record<string, Result> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]))
}
