/**
 * Rules that count and refuse nobody until a time, whatever their mode says. The end is stored with
 * the rules, so that it comes by itself on every node, also when whoever set it is gone.
 *
 * Wall clocks may be wrong, so each end is turned once into a time of this process's own steady
 * clock. A node that follows the store learns of a change within seconds: it believes its wall
 * clock only so far. One that starts meanwhile, or was cut off, has nothing else to go by; its end
 * is off by as much as its clock, but never further away than the whole time that was asked for.
 */
import { isJsonMap } from '../../lib/json-map.js'
import {
  type ShadowDocument,
  type ShadowEntry,
  SHADOW_MS_MAX,
  SHADOW_MS_MIN,
} from '../store/records.js'

/** A change that is called fresh was made at most so long ago. */
const FRESH_MS_MAX = 15_000
/** Of a store that somebody wrote into by hand. A set has up to 10,000 rules. */
const RULES_MAX = 10_000

interface Clocks {
  /** By a clock that never steps. */
  readonly nowMs: () => number
  /** Milliseconds since 1970. */
  readonly wallMs: () => number
}

interface ActiveShadow extends ShadowEntry {
  /** By the steady clock. */
  readonly endMs: number
}

export class TimedShadow {
  readonly #clocks: Clocks
  #all: ActiveShadow | undefined
  #rules: ReadonlyMap<string, ActiveShadow> = new Map()

  constructor(clocks: Clocks) {
    this.#clocks = clocks
  }

  /** Takes what the store holds. `isFresh`: what is new in it was stored a moment ago. */
  update(stored: unknown, isFresh: boolean): void {
    const { all, rules = {} } = readShadow(stored)
    this.#all = all && this.begin(all, this.#all, isFresh)
    this.#rules = new Map(
      Object.entries(rules).map(([id, entry]) => {
        return [id, this.begin(entry, this.#rules.get(id), isFresh)] as const
      }),
    )
  }

  /** Until when the rule, or every rule, refuses nobody, as was asked for; undefined: it does. */
  until(rule?: string): string | undefined {
    const nowMs = this.#clocks.nowMs()
    const own = rule === undefined ? undefined : this.#rules.get(rule)
    const active = [this.#all, own].filter((each) => each !== undefined && each.endMs > nowMs)
    return active.toSorted((a, b) => (b?.endMs ?? 0) - (a?.endMs ?? 0))[0]?.until
  }

  /** How many rules are named one by one, besides all of them together. */
  get ruleCount(): number {
    const nowMs = this.#clocks.nowMs()
    return [...this.#rules.values()].filter(({ endMs }) => endMs > nowMs).length
  }

  /** What is active now, as a text that changes with it; empty: nothing. */
  state(): string {
    const { ruleCount } = this
    const until = this.until()
    return until === undefined && ruleCount === 0 ? '' : JSON.stringify({ until, ruleCount })
  }

  /** How long until the next of them ends; undefined: none is active. */
  msLeft(): number | undefined {
    const nowMs = this.#clocks.nowMs()
    let least: number | undefined
    for (const active of [this.#all, ...this.#rules.values()]) {
      const left = active === undefined ? 0 : active.endMs - nowMs
      if (left > 0 && (least === undefined || left < least)) least = left
    }
    return least
  }

  private begin(
    entry: ShadowEntry,
    known: ActiveShadow | undefined,
    isFresh: boolean,
  ): ActiveShadow {
    const { until, forMs } = entry
    if (known?.until === until && known.forMs === forMs) return known
    const { nowMs, wallMs } = this.#clocks
    const least = isFresh ? Math.max(0, forMs - FRESH_MS_MAX) : 0
    const left = Math.min(forMs, Math.max(least, Date.parse(until) - wallMs()))
    return { until, forMs, endMs: nowMs() + left }
  }
}

const NONE: ShadowDocument = {}

/** What is no time or no duration is left out: a rule that nobody can place in time is enforced. */
function readShadow(stored: unknown): ShadowDocument {
  if (!isJsonMap(stored)) return NONE
  const rules = isJsonMap(stored['rules'])
    ? Object.entries(stored['rules']).slice(0, RULES_MAX)
    : []
  const all = readEntry(stored['all'])
  return {
    ...(all !== undefined && { all }),
    rules: Object.fromEntries(
      rules.flatMap(([id, value]) => {
        const entry = readEntry(value)
        return entry === undefined ? [] : [[id, entry] as const]
      }),
    ),
  }
}

function readEntry(value: unknown): ShadowEntry | undefined {
  if (!isJsonMap(value)) return undefined
  const { until, forMs } = value
  if (typeof until !== 'string' || Number.isNaN(Date.parse(until))) return undefined
  if (typeof forMs !== 'number' || !(forMs >= SHADOW_MS_MIN && forMs <= SHADOW_MS_MAX)) {
    return undefined
  }
  return { until, forMs }
}
