/** Nodes of the store that are not asked, because they did not answer or cannot be reached. */
import type { RedisNodeStats, RedisStats } from '@sluice/limiter/redis'
import type { Finding } from '../alert.js'

/** A connection that is made anew within this many looks is no news. */
const LOOKS = 3
/** Beside the nodes of a Cluster there is nothing to bound. */
const NODES_MAX = 1000
/** What it is about where no node is known. */
const NOWHERE = ''

export class StoreSilence {
  /** By address, at how many looks in a row it was not to be reached. */
  #silent = new Map<string, number>()

  look(stats: RedisStats | undefined): readonly Finding[] {
    if (stats === undefined) return []
    const silent = silentOf(stats)
    const before = this.#silent
    this.#silent = new Map(silent.map((address) => [address, (before.get(address) ?? 0) + 1]))
    const broken = findOpenBreakers(stats.nodes)
    const told = new Set(broken.map(({ subject }) => subject))
    const unreached = silent
      .filter((address) => !told.has(address) && (this.#silent.get(address) ?? 0) >= LOOKS)
      .map((address) => unreachable(address, stats.state))
    return [...broken, ...unreached]
  }
}

function silentOf({ state, nodes }: RedisStats): readonly string[] {
  // One that answers and refuses this node is an alert of its own.
  if (state === 'refused') return []
  if (state !== 'ready' || nodes.length === 0) return [NOWHERE]
  const silent = nodes
    .filter(({ isAnswering, refusal }) => !isAnswering && refusal === undefined)
    .slice(0, NODES_MAX)
  return silent.map(({ address }) => address)
}

function findOpenBreakers(nodes: readonly RedisNodeStats[]): readonly Finding[] {
  return nodes
    .filter(({ isBreakerOpen }) => isBreakerOpen)
    .map(({ address, breakerOpened }) => ({
      ...openBreaker(address),
      details: { store: address, opened: breakerOpened },
    }))
}

export function openBreaker(store: string): Finding {
  const summary = `Redis at ${store} does not answer in time; rules answer by their posture.`
  const past = `Redis at ${store} did not answer in time; rules answered by their posture.`
  return { subject: store, summary, past, details: { store } }
}

function unreachable(store: string, state: RedisStats['state']): Finding {
  if (state === 'unfit') {
    const summary = 'Redis cannot be used, the log says why; rules answer by their posture.'
    const past = 'Redis could not be used; rules answered by their posture.'
    return { subject: store, summary, past, details: {} }
  }
  const where = store === NOWHERE ? 'Redis' : `Redis at ${store}`
  const summary = `${where} cannot be reached; rules answer by their posture.`
  const past = `${where} could not be reached; rules answered by their posture.`
  return { subject: store, summary, past, details: store === NOWHERE ? {} : { store } }
}
