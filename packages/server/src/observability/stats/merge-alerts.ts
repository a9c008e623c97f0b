/** Merges the alerts of all nodes: an alert of several nodes began when the first reported it. */
import { type Alert, mostUrgentFirst } from '../alerts/alert.js'
import type { AlertLists } from './node-snapshot.js'

/** Resolved alerts; active ones are bounded on each node. */
const RECENT_MAX = 100

export function mergeAlerts(all: readonly AlertLists[]): AlertLists {
  const active = new Map<string, Alert>()
  for (const alert of all.flatMap((each) => each.active)) {
    const known = active.get(alert.id)
    if (known === undefined || alert.since < known.since) active.set(alert.id, alert)
  }
  const ended = new Map<string, Alert>()
  for (const alert of all.flatMap(({ recent }) => recent)) {
    // It is still active on another node, unless it ended before that one began.
    const goesOn = active.get(alert.id)
    if (goesOn !== undefined && lastedUntil(alert) > goesOn.since) continue
    // Alerts that began within the same ten seconds are one; later ones are another occurrence.
    const key = `${alert.id} ${alert.since.slice(0, SECONDS_OF_TIME)}`
    const known = ended.get(key)
    if (known === undefined || lastedUntil(alert) > lastedUntil(known)) ended.set(key, alert)
  }
  return {
    active: [...active.values()].toSorted(mostUrgentFirst),
    recent: [...ended.values()]
      .toSorted((a, b) => compare(lastedUntil(b), lastedUntil(a)))
      .slice(0, RECENT_MAX),
  }
}

/** The length of an ISO time up to the tens of seconds. */
const SECONDS_OF_TIME = 'YYYY-MM-DDTHH:MM:S'.length

function lastedUntil({ resolvedAt }: Alert): string {
  return resolvedAt ?? ''
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
