/** Counts the calls of a run by second and priority, and computes its figures. */
import { PATIENCE_MS, PRIORITIES } from './setting.mjs'

const perPriority = () => Object.fromEntries(PRIORITIES.map((name) => [name, 0]))

export class Tally {
  /** By second of the run: what came, what was served in time, and what was shed. */
  #seconds = []
  /** Latencies of critical calls in measured phases; those not served count as given up. */
  #latencies = []
  #profile

  constructor(profile) {
    this.#profile = profile
  }

  /** `outcome`: `served`, `shed`, or `lost` if it had no answer in time. */
  record({ atMs, phase }, { priority }, outcome, latencyMs) {
    const second = Math.floor(atMs / 1000)
    this.#seconds[second] ??= {
      phase: phaseAt(this.#profile, second + 0.5),
      offered: perPriority(),
      served: perPriority(),
      shed: perPriority(),
    }
    const counts = this.#seconds[second]
    counts.offered[priority] += 1
    const isServed = outcome === 'served' && latencyMs <= PATIENCE_MS
    if (isServed) counts.served[priority] += 1
    if (outcome === 'shed') counts.shed[priority] += 1
    if (priority !== 'critical' || !this.#profile[phase].isMeasured) return
    this.#latencies.push(isServed ? latencyMs : PATIENCE_MS)
  }

  result() {
    return { seconds: [...this.#seconds], latencies: this.#latencies, profile: this.#profile }
  }
}

/** The phase of a profile at this second. */
function phaseAt(profile, second) {
  let endS = 0
  return profile.findIndex(({ seconds }) => {
    endS += seconds
    return second < endS
  })
}

const sumOf = (counts) => Object.values(counts).reduce((sum, count) => sum + count, 0)

/** `{ served, goodput, p99, shed, turns, backS }` of one run; shares from 0 to 1. */
export function figuresOf({ seconds, latencies, profile, capacity }) {
  const phaseOf = (second) => profile[second?.phase]
  const measured = seconds.filter((second) => phaseOf(second)?.isMeasured === true)
  const total = (field) =>
    Object.fromEntries(
      PRIORITIES.map((name) => [
        name,
        measured.reduce((sum, second) => sum + second[field][name], 0),
      ]),
    )
  const [offered, served, shed] = [total('offered'), total('served'), total('shed')]
  const all = sumOf(offered)
  return {
    served: Object.fromEntries(PRIORITIES.map((name) => [name, served[name] / offered[name]])),
    goodput: sumOf(served) / (capacity * measured.length),
    p99: percentile(latencies, 0.99),
    shed: sumOf(shed) / all,
    shedCalls: sumOf(shed),
    turns: turnsOf(measured.map((second) => sumOf(second.shed) / sumOf(second.offered))),
    backS: backSeconds(seconds.filter((second) => phaseOf(second)?.isBack === true)),
  }
}

function percentile(values, share) {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}

/** Smaller changes of what is shed in a second are noise. */
const TURN_SHARE = 0.1

/** How often the share that is shed changes its direction. */
function turnsOf(shares) {
  let turns = 0
  let direction = 0
  let [extreme] = shares
  for (const share of shares) {
    const change = share - extreme
    if (Math.sign(change) === direction) extreme = share
    else if (Math.abs(change) >= TURN_SHARE) {
      if (direction !== 0) turns += 1
      direction = Math.sign(change)
      extreme = share
    }
  }
  return turns
}

/** Seconds after the end of an overload in which calls were still shed. */
function backSeconds(seconds) {
  return seconds.findLastIndex((second) => sumOf(second.shed) > 0) + 1
}
