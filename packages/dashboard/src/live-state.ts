/** How a tick changes what is known: lists move on by a step, and a gap is told. */
import type { RuleStatsView, RuleTickView, SeriesView, StatsView, TickView } from '@sluice/client'
import { sum } from './format.js'

export interface Merged {
  readonly next: StatsView | undefined
  /** False: something is missing in between, and the whole has to be read again. */
  readonly isWhole: boolean
}

interface Step {
  readonly endMs: number
  readonly allowed: number
  readonly refused: number
  readonly shadowRefused: number
  readonly degraded: number
}

/** `old`: it is there already; `gap`: there are steps in between that nobody told. */
type Fit = 'next' | 'old' | 'gap'

const fitOf = (series: SeriesView, endMs: number): Fit => {
  if (endMs <= series.endMs) return 'old'
  return endMs === series.endMs + series.stepMs ? 'next' : 'gap'
}

/** How far back it is shown: five minutes by steps, six hours by minutes, ten minutes of a rule. */
export const STEPS_MAX = 150
export const MINUTES_MAX = 360
export const RULE_STEPS_MAX = 60

/** A young server is shown closer, from a fifth on: its minute is no sliver at the right edge. */
export const stepsShown = (known: number, most: number): number =>
  Math.min(most, Math.max(known, Math.ceil(most / 5)))

/** A young server has told little yet: lists grow until the oldest has to go. */
const pushed = <T>(values: readonly T[], value: T, max: number): readonly T[] =>
  [...values, value].slice(-max)

function appended(series: SeriesView, step: Step, max: number): SeriesView {
  return {
    stepMs: series.stepMs,
    endMs: step.endMs,
    allowed: pushed(series.allowed, step.allowed, max),
    refused: pushed(series.refused, step.refused, max),
    shadowRefused: pushed(series.shadowRefused, step.shadowRefused, max),
    degraded: pushed(series.degraded, step.degraded, max),
  }
}

export function withTick(stats: StatsView | undefined, tick: TickView): Merged {
  if (stats === undefined) return { next: undefined, isWhole: false }
  const fit = fitOf(stats.series, tick.endMs)
  // The picture stays as it was until the whole has been read: half of a step would be a lie.
  if (fit === 'gap') return { next: { ...stats, ...factsOf(stats, tick) }, isWhole: false }
  // What one process saw alone stays its sight until all of them have been read again.
  const isJoined = stats.isWhole || !tick.isWhole
  if (fit === 'old') return { next: { ...stats, ...factsOf(stats, tick) }, isWhole: isJoined }
  const series = appended(stats.series, tick, STEPS_MAX)
  const minutes = withMinute(stats.minutes, series)
  const rules = withRules(stats.rules, tick.rules)
  const { decisionLatency, storeLatency } = stats
  return {
    next: {
      ...stats,
      ...factsOf(stats, tick),
      series,
      minutes: minutes.series,
      rules: rules.list,
      decisionLatency: {
        p50Ms: pushed(decisionLatency.p50Ms, tick.decisionP50Ms, STEPS_MAX),
        p99Ms: pushed(decisionLatency.p99Ms, tick.decisionP99Ms, STEPS_MAX),
      },
      storeLatency: {
        p50Ms: pushed(storeLatency.p50Ms, tick.storeP50Ms, STEPS_MAX),
        p99Ms: pushed(storeLatency.p99Ms, tick.storeP99Ms, STEPS_MAX),
      },
    },
    isWhole: isJoined && minutes.isWhole && rules.isWhole,
  }
}

const factsOf = (known: StatsView, { at, nodes, isWhole, rulesVersion, store }: TickView) => ({
  at,
  nodes,
  isWhole: known.isWhole && isWhole,
  rulesVersion,
  store,
})

/** A minute is told by its last step. */
function withMinute(minutes: SeriesView, steps: SeriesView) {
  const { stepMs, endMs } = minutes
  if (steps.endMs < endMs + stepMs) return { series: minutes, isWhole: true }
  const inMinute = Math.round(stepMs / steps.stepMs)
  if (steps.endMs > endMs + stepMs) return { series: minutes, isWhole: false }
  const total = (values: readonly number[]) => sum(values.slice(-inMinute))
  const minute = {
    endMs: steps.endMs,
    allowed: total(steps.allowed),
    refused: total(steps.refused),
    shadowRefused: total(steps.shadowRefused),
    degraded: total(steps.degraded),
  }
  return { series: appended(minutes, minute, MINUTES_MAX), isWhole: true }
}

function withRules(rules: readonly RuleStatsView[], told: readonly RuleTickView[]) {
  const byRule = new Map(told.map((one) => [one.rule, one]))
  let isWhole = told.every(({ rule }) => rules.some((known) => known.rule === rule))
  const list = rules.map((known) => {
    const one = byRule.get(known.rule)
    if (one === undefined) return known
    const fit = fitOf(known.series, one.endMs)
    if (fit === 'gap') isWhole = false
    return fit === 'next' ? withRule(known, one) : known
  })
  return { list, isWhole }
}

function withRule(known: RuleStatsView, told: RuleTickView): RuleStatsView {
  const { endMs, allowed, refused, shadowRefused, refusingSince } = told
  const step = { endMs, allowed, refused, shadowRefused, degraded: 0 }
  const trial = {
    ...step,
    allowed: told.candidateAllowed,
    refused: 0,
    shadowRefused: told.candidateRefused,
  }
  return {
    ...known,
    refusingSince,
    series: appended(known.series, step, RULE_STEPS_MAX),
    candidate: known.candidate === null ? null : appended(known.candidate, trial, RULE_STEPS_MAX),
  }
}
