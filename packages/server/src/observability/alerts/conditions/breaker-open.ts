/** Nodes of the store that are down: they did not answer in time, or cannot be reached. */
import type { RemoteHealth, StoreNodeHealth } from '@sluice/limiter'
import type { Finding } from '../alert.js'
import { type AffectedRules, NO_RULES } from './affected-rules.js'
import { ConsecutiveFindings } from './consecutive-findings.js'

/** A connection that is made anew within this many looks is no news, unless rules felt it. */
const CONSECUTIVE_MIN = 3
/** Beside the nodes of a Cluster there is nothing to bound. */
const NODES_MAX = 1000
/** What it is about where no node is known. */
const NO_ADDRESS = ''

/** By address, how many calls met no connection since the start. */
export type ConnectionFailures = ReadonlyMap<string, number>

const NO_FAILURES: ConnectionFailures = new Map()

/** What one look found. */
interface Inspection {
  readonly stats: RemoteHealth
  readonly broken: ReadonlySet<string>
  /** Not to be reached at this look. */
  readonly silent: readonly string[]
  /** Not to be reached for several looks. */
  readonly lasting: ReadonlySet<string>
}

export class StoreOutage {
  readonly #streaks = new ConsecutiveFindings(CONSECUTIVE_MIN)
  #failures: ReadonlyMap<string, number> = NO_FAILURES
  #inspection: Inspection | undefined

  /** Looks at the nodes, once a second; undefined: counters are in this process. */
  evaluate(
    stats: RemoteHealth | undefined,
    failures: ConnectionFailures = NO_FAILURES,
  ): readonly Finding[] {
    this.#inspection = stats && this.inspect(stats, failures)
    return this.findings(false)
  }

  /**
   * What is down as of the last look. `isFelt`: rules decided by posture meanwhile, so that what
   * cannot be reached is told at once, as their cause.
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
  // One that answers and refuses this node is an alert of its own.
  if (state === 'refused') return []
  if (state !== 'ready' || nodes.length === 0) return [NO_ADDRESS]
  const silent = nodes
    .filter(({ refusal }) => refusal === undefined)
    // A connection may have been lost and made anew between two looks.
    .filter(({ address, isAnswering }) => !isAnswering || failing.has(address))
    .slice(0, NODES_MAX)
    .map(({ address }) => address)
  // Slots that no node has.
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
      summary: `Redis cannot be used, the log says why; ${present}.`,
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
