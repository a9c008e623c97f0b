/**
 * Timed shadows: rules that count and refuse no call until a given time, whatever their mode. The
 * end is stored with the rules, so that it comes by itself on every node.
 *
 * Wall clocks may be wrong, so each end is converted once to this process's monotonic clock. A node
 * that follows the store learns of a change within seconds, and trusts its wall clock only that
 * far. A node that starts meanwhile, or was disconnected, has only its wall clock: its end is off
 * by as much, but never later than the whole duration from now.
 */
import { isJsonMap } from '../../lib/json-map.js'
import {
  type ShadowDocument,
  type ShadowEntry,
  SHADOW_MS_MAX,
  SHADOW_MS_MIN,
} from '../store/records.js'

/** The maximum age of a fresh change. */
const FRESH_MS_MAX = 15_000
/** Bounds a store that was edited by hand. A set has up to 10,000 rules. */
const RULES_MAX = 10_000

interface Clocks {
  /** A monotonic clock. */
  readonly nowMs: () => number
  /** Milliseconds since 1970. */
  readonly wallMs: () => number
}

interface ActiveShadow extends ShadowEntry {
  /** By the monotonic clock. */
  readonly endMs: number
}

export class TimedShadow {
  readonly #clocks: Clocks
  #all: ActiveShadow | undefined
  #rules: ReadonlyMap<string, ActiveShadow> = new Map()

  constructor(clocks: Clocks) {
    this.#clocks = clocks
  }

  /** Applies the document of the store. `isFresh`: its changes were made a moment ago. */
  update(stored: unknown, isFresh: boolean): void {
    const { all, rules = {} } = readShadow(stored)
    this.#all = all && this.begin(all, this.#all, isFresh)
    this.#rules = new Map(
      Object.entries(rules).map(([id, entry]) => {
        return [id, this.begin(entry, this.#rules.get(id), isFresh)] as const
      }),
    )
  }

  /** The requested end of the shadow of a rule, or of all rules; undefined: none is active. */
  until(rule?: string): string | undefined {
    const nowMs = this.#clocks.nowMs()
    const own = rule === undefined ? undefined : this.#rules.get(rule)
    const active = [this.#all, own].filter((each) => each !== undefined && each.endMs > nowMs)
    return active.toSorted((a, b) => (b?.endMs ?? 0) - (a?.endMs ?? 0))[0]?.until
  }

  /** How many rules have an active shadow of their own. */
  get ruleCount(): number {
    const nowMs = this.#clocks.nowMs()
    return [...this.#rules.values()].filter(({ endMs }) => endMs > nowMs).length
  }

  /** A text that changes whenever the active shadows do; empty: none is active. */
  state(): string {
    const { ruleCount } = this
    const until = this.until()
    return until === undefined && ruleCount === 0 ? '' : JSON.stringify({ until, ruleCount })
  }

  /** Time until the next shadow ends; undefined: none is active. */
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

/** Entries without a valid time and duration are left out: their rules are enforced. */
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
