/** How a tick changes what is known: lists move on by a step, and a gap is told. */
import type { RuleStatsView, RuleTickView, SeriesView, StatsView, TickView } from '@sluice/client'
import { sum } from './format.js'

export interface TickResult {
  readonly stats: StatsView | undefined
  /** False: something is missing in between, and the whole has to be read again. */
  readonly isComplete: boolean
}

interface Step {
  readonly endMs: number
  readonly allowed: number
  readonly refused: number
  readonly shadowRefused: number
  readonly degraded: number
}

/** `old`: it is there already; `gap`: there are steps in between that nobody told. */
type StepPosition = 'next' | 'old' | 'gap'

const positionOf = (series: SeriesView, endMs: number): StepPosition => {
  if (endMs <= series.endMs) return 'old'
  return endMs === series.endMs + series.stepMs ? 'next' : 'gap'
}

/** How far back it is shown: five minutes by steps, six hours by minutes, ten minutes of a rule. */
export const STEPS_MAX = 150
export const MINUTES_MAX = 360
export const RULE_STEPS_MAX = 60

/** A young server is shown closer, from a fifth on: its minute is no sliver at the right edge. */
export const stepsShown = (known: number, max: number): number =>
  Math.min(max, Math.max(known, Math.ceil(max / 5)))

/** A young server has told little yet: lists grow until the oldest has to go. */
const pushBounded = <T>(values: readonly T[], value: T, max: number): readonly T[] =>
  [...values, value].slice(-max)

function appendStep(series: SeriesView, step: Step, max: number): SeriesView {
  return {
    stepMs: series.stepMs,
    endMs: step.endMs,
    allowed: pushBounded(series.allowed, step.allowed, max),
    refused: pushBounded(series.refused, step.refused, max),
    shadowRefused: pushBounded(series.shadowRefused, step.shadowRefused, max),
    degraded: pushBounded(series.degraded, step.degraded, max),
  }
}

export function applyTick(stats: StatsView | undefined, tick: TickView): TickResult {
  if (stats === undefined) return { stats: undefined, isComplete: false }
  const position = positionOf(stats.series, tick.endMs)
  // The picture stays as it was until the whole has been read: half of a step would be a lie.
  if (position === 'gap')
    return { stats: { ...stats, ...currentFields(stats, tick) }, isComplete: false }
  // What one process saw alone stays its sight until all of them have been read again.
  const coversAllNodes = stats.isWhole || !tick.isWhole
  if (position === 'old')
    return { stats: { ...stats, ...currentFields(stats, tick) }, isComplete: coversAllNodes }
  const series = appendStep(stats.series, tick, STEPS_MAX)
  const minutes = addMinute(stats.minutes, series)
  const rules = applyRuleTicks(stats.rules, tick.rules)
  const { decisionLatency, storeLatency } = stats
  return {
    stats: {
      ...stats,
      ...currentFields(stats, tick),
      series,
      minutes: minutes.series,
      rules: rules.list,
      decisionLatency: {
        p50Ms: pushBounded(decisionLatency.p50Ms, tick.decisionP50Ms, STEPS_MAX),
        p99Ms: pushBounded(decisionLatency.p99Ms, tick.decisionP99Ms, STEPS_MAX),
      },
      storeLatency: {
        p50Ms: pushBounded(storeLatency.p50Ms, tick.storeP50Ms, STEPS_MAX),
        p99Ms: pushBounded(storeLatency.p99Ms, tick.storeP99Ms, STEPS_MAX),
      },
    },
    isComplete: coversAllNodes && minutes.isWhole && rules.isWhole,
  }
}

const currentFields = (
  known: StatsView,
  { at, nodes, isWhole, rulesVersion, store }: TickView,
) => ({
  at,
  nodes,
  isWhole: known.isWhole && isWhole,
  rulesVersion,
  store,
})

/** A minute is told by its last step. */
function addMinute(minutes: SeriesView, steps: SeriesView) {
  const { stepMs, endMs } = minutes
  if (steps.endMs < endMs + stepMs) return { series: minutes, isWhole: true }
  const stepsPerMinute = Math.round(stepMs / steps.stepMs)
  if (steps.endMs > endMs + stepMs) return { series: minutes, isWhole: false }
  const total = (values: readonly number[]) => sum(values.slice(-stepsPerMinute))
  const minute = {
    endMs: steps.endMs,
    allowed: total(steps.allowed),
    refused: total(steps.refused),
    shadowRefused: total(steps.shadowRefused),
    degraded: total(steps.degraded),
  }
  return { series: appendStep(minutes, minute, MINUTES_MAX), isWhole: true }
}

function applyRuleTicks(rules: readonly RuleStatsView[], ruleTicks: readonly RuleTickView[]) {
  const byRule = new Map(ruleTicks.map((one) => [one.rule, one]))
  let isWhole = ruleTicks.every(({ rule }) => rules.some((known) => known.rule === rule))
  const list = rules.map((known) => {
    const one = byRule.get(known.rule)
    if (one === undefined) return known
    const position = positionOf(known.series, one.endMs)
    if (position === 'gap') isWhole = false
    return position === 'next' ? applyRuleTick(known, one) : known
  })
  return { list, isWhole }
}

function applyRuleTick(known: RuleStatsView, ruleTicks: RuleTickView): RuleStatsView {
  const { endMs, allowed, refused, shadowRefused, refusingSince } = ruleTicks
  const step = { endMs, allowed, refused, shadowRefused, degraded: 0 }
  const candidateStep = {
    ...step,
    allowed: ruleTicks.candidateAllowed,
    refused: 0,
    shadowRefused: ruleTicks.candidateRefused,
  }
  return {
    ...known,
    refusingSince,
    series: appendStep(known.series, step, RULE_STEPS_MAX),
    candidate:
      known.candidate === null ? null : appendStep(known.candidate, candidateStep, RULE_STEPS_MAX),
  }
}
