/**
 * Removes the names of callers from a snapshot before it is published, and adds them encrypted or
 * not at all. Rows keep their hashes, which nodes show that cannot decrypt the names, or are of an
 * earlier release.
 */
import { type Alert, callerDetails, withoutCallerDetails } from '../alerts/alert.js'
import type { NameProtection } from './name-protection.js'
import type { AlertLists, CallerIdentity, NodeSnapshot } from './node-snapshot.js'

/** What a row says of a caller besides its hash. A path may contain a name, too. */
type CallerName = Pick<CallerIdentity, 'caller' | 'plan' | 'lastRefusedCall'>

type SealedRow = readonly [
  caller: CallerName['caller'],
  plan: string | null,
  lastRefusedCall: string | null,
]

interface SealedNames {
  /** In the order of the rows of the same name. */
  readonly callers: readonly SealedRow[]
  readonly shadowCallers: readonly SealedRow[]
  /** By alert id, because a reader may leave out alerts it does not know. */
  readonly alerts: readonly (readonly [id: string, details: Alert['details']])[]
}

const NAMELESS: CallerName = { caller: {}, plan: null, lastRefusedCall: null }

/** The snapshot as it may be published. */
export function hideNames(snapshot: NodeSnapshot, { form, sealer }: NameProtection): NodeSnapshot {
  if (form === 'clear') return snapshot
  const { callers, shadowCallers, alerts } = snapshot
  const hidden: NodeSnapshot = {
    ...snapshot,
    callers: callers.map((row) => ({ ...row, ...NAMELESS })),
    ...(shadowCallers && { shadowCallers: shadowCallers.map((row) => ({ ...row, ...NAMELESS })) }),
    alerts: eachAlert(alerts, (alert) => ({
      ...alert,
      details: withoutCallerDetails(alert.details),
    })),
  }
  if (form === 'hash') return hidden
  const names: SealedNames = {
    callers: callers.map(toSealedRow),
    shadowCallers: shadowCallers?.map(toSealedRow) ?? [],
    alerts: [...alerts.recent, ...alerts.active].map(({ id, details }) => [
      id,
      callerDetails(details),
    ]),
  }
  return { ...hidden, sealedNames: sealer.seal(JSON.stringify(names), contextOf(snapshot)) }
}

/** Restores the names, if they can be decrypted. Never throws. */
export function revealNames(snapshot: NodeSnapshot, { sealer }: NameProtection): NodeSnapshot {
  const { sealedNames, ...rest } = snapshot
  if (sealedNames === undefined) return snapshot
  const text = sealer.open(sealedNames, contextOf(rest))
  if (text === undefined) return rest
  try {
    // Authenticated: only a node with the same secret can have written it, for these rows.
    return withNames(rest, JSON.parse(text) as SealedNames)
  } catch {
    // A later release may have another format.
    return rest
  }
}

function withNames(snapshot: NodeSnapshot, names: SealedNames): NodeSnapshot {
  const { callers, shadowCallers, alerts } = snapshot
  const details = new Map(names.alerts)
  return {
    ...snapshot,
    callers: callers.map((row, at) => ({ ...row, ...nameOf(names.callers[at]) })),
    ...(shadowCallers && {
      shadowCallers: shadowCallers.map((row, at) => ({
        ...row,
        ...nameOf(names.shadowCallers[at]),
      })),
    }),
    alerts: eachAlert(alerts, (alert) => ({
      ...alert,
      details: { ...alert.details, ...details.get(alert.id) },
    })),
  }
}

function toSealedRow({ caller, plan, lastRefusedCall = null }: CallerName): SealedRow {
  return [caller, plan, lastRefusedCall]
}

function nameOf([caller, plan, lastRefusedCall]: SealedRow = [{}, null, null]): CallerName {
  return { caller, plan, lastRefusedCall }
}

function eachAlert(alerts: AlertLists, change: (alert: Alert) => Alert): AlertLists {
  return { active: alerts.active.map(change), recent: alerts.recent.map(change) }
}

/** Binds the names to their rows, so that a writer to Redis cannot move a name to another row. */
function contextOf({ node, callers, shadowCallers = [] }: NodeSnapshot): string {
  const rows = [...callers, ...shadowCallers].map(({ rule, hash }) => `${rule} ${hash}`)
  return [node.id, callers.length, ...rows].join('\n')
}
