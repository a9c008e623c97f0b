/** What one rule, or the limits on trial of one, decided in the last ten minutes. */
import { candidateId } from '@sluice/core'
import { type Measured, HistogramRing } from './latency.js'
import { LEFT_BOUNDS, RULE_STEPS } from './node-sight.js'
import { StepRing, type Totals } from './series.js'

/** A rule that refused nobody for longer does not go on refusing. */
const PAUSE_MS_MAX = 60_000

export class RuleSteps {
  readonly name: string
  readonly isCandidate: boolean
  readonly ring = new StepRing(RULE_STEPS)
  /** How many there were at the last look; the same again: nothing happened. */
  #decisions = 0
  #refused = 0
  #lastStep = 0
  #refusingSinceMs = 0
  #refusedMs = -Infinity

  constructor(name: string) {
    this.name = name
    this.isCandidate = name.endsWith(CANDIDATE_SUFFIX)
  }

  /** Whether something came since the last time. */
  feed(step: number, totals: Totals & { readonly decisions: number }, nowMs: number): boolean {
    if (totals.decisions === this.#decisions) return false
    this.#decisions = totals.decisions
    this.#lastStep = step
    this.ring.feed(step, totals)
    if (totals.refused !== this.#refused) {
      this.#refused = totals.refused
      if (nowMs - this.#refusedMs > PAUSE_MS_MAX) this.#refusingSinceMs = nowMs
      this.#refusedMs = nowMs
    }
    return true
  }

  refusingSinceMs(nowMs: number): number | null {
    return nowMs - this.#refusedMs > PAUSE_MS_MAX ? null : this.#refusingSinceMs
  }

  /** The clock was put back, and nothing can have begun ahead of it. */
  rewind(step: number, nowMs: number): void {
    this.ring.rewind(step)
    this.#lastStep = Math.min(this.#lastStep, step)
    this.#refusedMs = Math.min(this.#refusedMs, nowMs)
    this.#refusingSinceMs = Math.min(this.#refusingSinceMs, nowMs)
  }

  /** Gives back what is kept of a rule that has decided nothing in all the steps up to `end`. */
  dropIdle(end: number): boolean {
    if (!this.ring.isKept || end - this.#lastStep <= RULE_STEPS) return false
    this.ring.drop()
    return true
  }
}

const CANDIDATE_SUFFIX = candidateId('')

/** The shares that the decisions of a rule left, of the last ten minutes. */
export class LeftShares {
  readonly #ring: HistogramRing
  /** By the places of what is measured, which may have more bounds. */
  readonly #places: readonly number[]

  constructor(measured: Measured, minute: number) {
    this.#ring = new HistogramRing(measured, MINUTES, minute)
    this.#places = [...measured.bounds, Infinity].map((bound) => {
      const place = LEFT_BOUNDS.findIndex((each) => bound <= each)
      return place < 0 ? LEFT_BOUNDS.length - 1 : place
    })
  }

  feed(minute: number): void {
    this.#ring.feed(minute)
  }

  rewind(minute: number): void {
    this.#ring.rewind(minute)
  }

  /** By `LEFT_BOUNDS`. */
  counts(minute: number): readonly number[] {
    const counts = LEFT_BOUNDS.map(() => 0)
    for (const [place, told] of this.#places.entries()) {
      counts[told] = (counts[told] ?? 0) + this.#ring.sum(place, minute)
    }
    return counts
  }
}

/** Complete ones, beside the one under way. */
const MINUTES = 10
