/** Applies a live tick to the statistics: appends one step to each series and reports gaps. */
import type {
  PriorityStatsView,
  PriorityTickView,
  RuleStatsView,
  RuleTickView,
  SeriesView,
  StatsView,
  TickView,
} from '@sluice/client'
import { sum } from './format.js'

export interface TickResult {
  readonly stats: StatsView | undefined
  /** False: steps are missing, and the statistics have to be loaded again. */
  readonly isComplete: boolean
}

interface Step {
  readonly endMs: number
  readonly allowed: number
  readonly refused: number
  readonly shadowRefused: number
  readonly degraded: number
}

/** `old`: the series has this step already. `gap`: steps in between are missing. */
type StepPosition = 'next' | 'old' | 'gap'

const positionOf = (series: SeriesView, endMs: number): StepPosition => {
  if (endMs <= series.endMs) return 'old'
  return endMs === series.endMs + series.stepMs ? 'next' : 'gap'
}

/** Length of the series: 5 minutes in steps, 6 hours in minutes, 10 minutes for one rule. */
export const STEPS_MAX = 150
export const MINUTES_MAX = 360
export const RULE_STEPS_MAX = 60

/** Zooms in while there is little data, so that the first minute is not a sliver at the edge. */
export const stepsShown = (known: number, max: number): number =>
  Math.min(max, Math.max(known, Math.ceil(max / 5)))

/** Appends a value; the list grows up to `max`, then drops its oldest value. */
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
  // The series stay unchanged until the reload: a partial step would be wrong.
  if (position === 'gap')
    return { stats: { ...stats, ...currentFields(stats, tick) }, isComplete: false }
  // Statistics of one process stay marked as such until those of all nodes are loaded again.
  const coversAllNodes = stats.isWhole || !tick.isWhole
  if (position === 'old')
    return { stats: { ...stats, ...currentFields(stats, tick) }, isComplete: coversAllNodes }
  const series = appendStep(stats.series, tick, STEPS_MAX)
  const minutes = addMinute(stats.minutes, series)
  const rules = applyRuleTicks(stats.rules, tick.rules)
  const priorities = applyPriorityTicks(stats.priorities, tick.priorities)
  const { decisionLatency, storeLatency } = stats
  return {
    stats: {
      ...stats,
      ...currentFields(stats, tick),
      series,
      minutes: minutes.series,
      rules: rules.list,
      priorities: priorities.list,
      decisionLatency: {
        p50Ms: pushBounded(decisionLatency.p50Ms, tick.decisionP50Ms, STEPS_MAX),
        p99Ms: pushBounded(decisionLatency.p99Ms, tick.decisionP99Ms, STEPS_MAX),
      },
      storeLatency: {
        p50Ms: pushBounded(storeLatency.p50Ms, tick.storeP50Ms, STEPS_MAX),
        p99Ms: pushBounded(storeLatency.p99Ms, tick.storeP99Ms, STEPS_MAX),
      },
    },
    isComplete: coversAllNodes && minutes.isComplete && rules.isComplete && priorities.isComplete,
  }
}

const currentFields = (
  known: StatsView,
  { at, nodes, isWhole, rulesVersion, store, inFlight }: TickView,
) => ({
  at,
  nodes,
  isWhole: known.isWhole && isWhole,
  rulesVersion,
  store,
  inFlight,
})

/** Appends a minute when its last step has arrived. */
function addMinute(minutes: SeriesView, steps: SeriesView) {
  const { stepMs, endMs } = minutes
  if (steps.endMs < endMs + stepMs) return { series: minutes, isComplete: true }
  const stepsPerMinute = Math.round(stepMs / steps.stepMs)
  if (steps.endMs > endMs + stepMs) return { series: minutes, isComplete: false }
  const total = (values: readonly number[]) => sum(values.slice(-stepsPerMinute))
  const minute = {
    endMs: steps.endMs,
    allowed: total(steps.allowed),
    refused: total(steps.refused),
    shadowRefused: total(steps.shadowRefused),
    degraded: total(steps.degraded),
  }
  return { series: appendStep(minutes, minute, MINUTES_MAX), isComplete: true }
}

/** Other rules may have other priorities, whose earlier steps are unknown. */
function applyPriorityTicks(
  priorities: readonly PriorityStatsView[],
  ticks: readonly PriorityTickView[],
) {
  const isComplete =
    priorities.length === ticks.length &&
    ticks.every(({ priority }, i) => priorities[i]?.priority === priority)
  const byName = new Map(ticks.map((one) => [one.priority, one]))
  const list = priorities.map((known) => {
    const { admitted = 0, shed = 0, shadowShed = 0 } = byName.get(known.priority) ?? {}
    return {
      priority: known.priority,
      admitted: pushBounded(known.admitted, admitted, STEPS_MAX),
      shed: pushBounded(known.shed, shed, STEPS_MAX),
      shadowShed: pushBounded(known.shadowShed, shadowShed, STEPS_MAX),
    }
  })
  return { list, isComplete }
}

function applyRuleTicks(rules: readonly RuleStatsView[], ruleTicks: readonly RuleTickView[]) {
  const byRule = new Map(ruleTicks.map((one) => [one.rule, one]))
  let isComplete = ruleTicks.every(({ rule }) => rules.some((known) => known.rule === rule))
  const list = rules.map((known) => {
    const one = byRule.get(known.rule)
    if (one === undefined) return known
    const position = positionOf(known.series, one.endMs)
    if (position === 'gap') isComplete = false
    return position === 'next' ? applyRuleTick(known, one) : known
  })
  return { list, isComplete }
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
