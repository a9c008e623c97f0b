/** The callers of one rule with most of something, in the present period and the one before. */
import type { Hash64 } from '@sluice/core'
import { PLACES, SpaceSaving } from './space-saving.js'

/** Working memory of one call, never read by the next. */
const counts = new Float64Array(2 * PLACES)
/** In the place of a count: this caller was met before. */
const TOLD = -1

/** Who gives sketches to rules: there are fewer than there may be rules. */
export interface Places {
  /** Whether there is one for this rule now; else it is thought of later. */
  ask(top: RuleTop): boolean
}

interface Estimate {
  /** Not too low, and at most `error` too high. */
  readonly count: number
  readonly error: number
}

export class RuleTop {
  /** Decisions that spoke of this rule, in the present period and the one before. */
  activity = 0
  activityBefore = 0
  isWaiting = false
  readonly #places: Places
  readonly #keepsCalls: boolean
  #present: SpaceSaving | undefined
  #before: SpaceSaving | undefined

  /** `keepsCalls`: of refusals it is told which call was refused. */
  constructor(places: Places, keepsCalls = false) {
    this.#places = places
    this.#keepsCalls = keepsCalls
  }

  get recentActivity(): number {
    return this.activity + this.activityBefore
  }

  get hasPlace(): boolean {
    return this.#present !== undefined
  }

  /** Callers that are held. */
  get size(): number {
    return (this.#present?.size ?? 0) + (this.#before?.size ?? 0)
  }

  /** Returns a place whose caller wants a name, or its call told anew; or -1. */
  add(hi: number, lo: number, amount: number, nowMs: number): number {
    this.activity++
    if (this.#present !== undefined) return this.#present.add(hi, lo, amount, nowMs)
    if (this.isWaiting || !this.#places.ask(this)) return -1
    this.#present = new SpaceSaving(this.#keepsCalls)
    return this.#present.add(hi, lo, amount, nowMs)
  }

  setName(place: number, name: string): void {
    this.#present?.setName(place, name)
  }

  setCall(place: number, call: string | undefined): void {
    this.#present?.setCall(place, call)
  }

  /** The call of this caller that was counted last, as text; undefined: it is not known. */
  callOf(hi: number, lo: number): string | undefined {
    return callIn(this.#present, hi, lo) ?? callIn(this.#before, hi, lo)
  }

  /** As it was told in the present period: what a plan was before then is no longer true. */
  presentNameOf(hi: number, lo: number): string | undefined {
    return nameIn(this.#present, hi, lo)
  }

  nameOf(hi: number, lo: number): string | undefined {
    return nameIn(this.#present, hi, lo) ?? nameIn(this.#before, hi, lo)
  }

  /** 0: it has no place. */
  lastMsOf(hi: number, lo: number): number {
    return Math.max(lastMsIn(this.#present, hi, lo), lastMsIn(this.#before, hi, lo))
  }

  /** Whoever has no place may have had as much as the smallest that has one. */
  estimate(hi: number, lo: number): Estimate {
    const place = this.#present?.find(hi, lo) ?? -1
    const placeBefore = this.#before?.find(hi, lo) ?? -1
    return {
      count: countIn(this.#present, place) + countIn(this.#before, placeBefore),
      error: errorIn(this.#present, place) + errorIn(this.#before, placeBefore),
    }
  }

  /** The callers with the highest counts, in no order. */
  highest(limit: number): readonly Hash64[] {
    const present = this.#present
    if (present === undefined) return []
    const before = this.#before
    const floor = present.floor
    const floorBefore = before?.floor ?? 0
    let size = 0
    for (let place = 0; place < present.size; place++) {
      const other = before?.find(present.hiAt(place), present.loAt(place)) ?? -1
      const beforeCount = other === -1 ? floorBefore : (before?.countAt(other) ?? 0)
      counts[size++] = present.countAt(place) + beforeCount
    }
    for (let place = 0; before !== undefined && place < before.size; place++) {
      const isAlone = present.find(before.hiAt(place), before.loAt(place)) === -1
      counts[size++] = isAlone ? floor + before.countAt(place) : TOLD
    }
    const least = counts.slice(0, size).sort()[size - limit] ?? 0
    const chosen: Hash64[] = []
    // Those with more than the last of them first: of those with as much, some may have no room.
    for (let round = 0; round < 2; round++) {
      for (let at = 0; at < size && chosen.length < limit; at++) {
        const count = counts[at] ?? 0
        if (count === TOLD || (round === 0 ? count <= least : count !== least)) continue
        const sketch = at < present.size ? present : before
        const place = at < present.size ? at : at - present.size
        chosen.push({ hi: sketch?.hiAt(place) ?? 0, lo: sketch?.loAt(place) ?? 0 })
      }
    }
    return chosen
  }

  /** A period is over. Nothing is made where nothing happens. */
  rotate(): void {
    this.activityBefore = this.activity
    this.activity = 0
    const present = this.#present
    if (present === undefined) return
    this.#present = this.#before ?? new SpaceSaving(this.#keepsCalls)
    this.#present.clear()
    this.#before = present
  }

  clear(): void {
    this.#present?.clear()
    this.#before?.clear()
  }

  /** Its sketches are free for another rule. */
  leave(): void {
    this.activity = 0
    this.activityBefore = 0
    this.#present = undefined
    this.#before = undefined
  }
}

/** `place`: that of the caller, or -1. */
function countIn(sketch: SpaceSaving | undefined, place: number): number {
  if (sketch === undefined) return 0
  return place === -1 ? sketch.floor : sketch.countAt(place)
}

function errorIn(sketch: SpaceSaving | undefined, place: number): number {
  if (sketch === undefined) return 0
  return place === -1 ? sketch.floor : sketch.errorAt(place)
}

function nameIn(sketch: SpaceSaving | undefined, hi: number, lo: number): string | undefined {
  const place = sketch?.find(hi, lo) ?? -1
  return place === -1 ? undefined : sketch?.nameAt(place)
}

function callIn(sketch: SpaceSaving | undefined, hi: number, lo: number): string | undefined {
  const place = sketch?.find(hi, lo) ?? -1
  return place === -1 ? undefined : sketch?.callAt(place)
}

function lastMsIn(sketch: SpaceSaving | undefined, hi: number, lo: number): number {
  const place = sketch?.find(hi, lo) ?? -1
  return place === -1 ? 0 : (sketch?.lastMsAt(place) ?? 0)
}
