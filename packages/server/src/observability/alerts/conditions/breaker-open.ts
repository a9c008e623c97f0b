/** Finds Redis nodes that are down: they do not answer in time, or cannot be reached. */
import type { RemoteHealth, StoreNodeHealth } from '@sluice/limiter'
import { STORES_MAX } from '../../../counter-store/store-metrics.js'
import type { Finding } from '../alert.js'
import { type AffectedRules, NO_RULES } from './affected-rules.js'
import { ConsecutiveFindings } from './consecutive-findings.js'

/** A reconnect within this many ticks is no alert, unless rules decided by posture meanwhile. */
const CONSECUTIVE_MIN = 3
/** The subject if no node is known. */
const NO_ADDRESS = ''

/** Calls without a connection since the start, by address. */
export type ConnectionFailures = ReadonlyMap<string, number>

const NO_FAILURES: ConnectionFailures = new Map()

/** The state of the nodes at one tick. */
interface Inspection {
  readonly stats: RemoteHealth
  readonly broken: ReadonlySet<string>
  /** Unreachable at this tick. */
  readonly silent: readonly string[]
  /** Unreachable for several ticks. */
  readonly lasting: ReadonlySet<string>
}

export class StoreOutage {
  readonly #streaks = new ConsecutiveFindings(CONSECUTIVE_MIN)
  #failures: ReadonlyMap<string, number> = NO_FAILURES
  #inspection: Inspection | undefined

  /** Called once a second; `stats` is undefined for the memory store. */
  evaluate(
    stats: RemoteHealth | undefined,
    failures: ConnectionFailures = NO_FAILURES,
  ): readonly Finding[] {
    this.#inspection = stats && this.inspect(stats, failures)
    return this.findings(false)
  }

  /**
   * Returns what is down as of the last tick. With `hasImpact`, rules decided by posture meanwhile,
   * and unreachable nodes are reported at once as the cause.
   */
  findings(hasImpact: boolean, affected: AffectedRules = NO_RULES): readonly Finding[] {
    if (this.#inspection === undefined) return []
    const { stats, broken, silent, lasting } = this.#inspection
    const unreached = silent
      .filter((address) => !broken.has(address) && (hasImpact || lasting.has(address)))
      .map((address) => unreachable(address, stats.state, affected))
    return [...findOpenBreakers(stats.nodes, affected), ...unreached]
  }

  private inspect(stats: RemoteHealth, failures: ConnectionFailures): Inspection {
    const failing = new Set<string>()
    for (const [address, count] of failures) {
      if (count > (this.#failures.get(address) ?? 0)) failing.add(address)
    }
    this.#failures = new Map(failures)
    const silent = silentOf(stats, failing)
    const lasting = this.#streaks.record(silent.map((subject) => ({ subject })))
    const broken = stats.nodes.filter(({ isBreakerOpen }) => isBreakerOpen)
    return {
      stats,
      broken: new Set(broken.map(({ address }) => address)),
      silent,
      lasting: new Set(lasting.map(({ subject }) => subject)),
    }
  }
}

function silentOf({ state, nodes }: RemoteHealth, failing: ReadonlySet<string>): readonly string[] {
  // A Redis that refuses this node has its own alert.
  if (state === 'refused') return []
  if (state !== 'ready' || nodes.length === 0) return [NO_ADDRESS]
  const silent = nodes
    .filter(({ refusal }) => refusal === undefined)
    // A connection may have been lost and re-established between two ticks.
    .filter(({ address, isAnswering }) => !isAnswering || failing.has(address))
    .slice(0, STORES_MAX)
    .map(({ address }) => address)
  // Calls fail without an address if no node of the Cluster serves their slot.
  return failing.has(NO_ADDRESS) ? [...silent, NO_ADDRESS] : silent
}

function findOpenBreakers(
  nodes: readonly StoreNodeHealth[],
  affected: AffectedRules,
): readonly Finding[] {
  return nodes
    .filter(({ isBreakerOpen }) => isBreakerOpen)
    .map(({ address, breakerOpened }) => {
      const finding = openBreaker(address, affected)
      return { ...finding, details: { ...finding.details, opened: breakerOpened } }
    })
}

export function openBreaker(store: string, affected: AffectedRules = NO_RULES): Finding {
  return {
    subject: store,
    summary: `Redis at ${store} does not answer in time; ${affected.present}.`,
    past: `Redis at ${store} did not answer in time; ${affected.past}.`,
    details: { store, ...affected.details },
  }
}

function unreachable(
  store: string,
  state: RemoteHealth['state'],
  { present, past, details }: AffectedRules,
): Finding {
  if (state === 'unfit') {
    return {
      subject: store,
      summary: `Redis cannot be used (see the log); ${present}.`,
      past: `Redis could not be used; ${past}.`,
      details,
    }
  }
  const where = store === NO_ADDRESS ? 'Redis' : `Redis at ${store}`
  return {
    subject: store,
    summary: `${where} cannot be reached; ${present}.`,
    past: `${where} could not be reached; ${past}.`,
    details: store === NO_ADDRESS ? details : { store, ...details },
  }
}
