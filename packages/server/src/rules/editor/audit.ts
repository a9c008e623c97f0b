/** Logs every change: who, why, what. Never a value, never a caller. */
import type { Log } from '../../observability/log/logger.js'
import {
  type Change,
  type RuleDocument,
  type ShadowDocument,
  type ShadowEntry,
  splitOverrideKey,
} from '../store/records.js'
import type { RuleCatalog } from '../sync/rule-catalog.js'
import {
  findWeakenings,
  logWeakenings,
  type Protection,
  type Weakening,
} from '../sync/weakened-rules.js'

/** Changes that one log line lists. */
const LISTED_MAX = 20

export interface ChangeSummary {
  /** Text such as `rule orders created`. */
  readonly what: readonly string[]
  /** Changes that weaken protection, which are logged as warnings. */
  readonly alarms: readonly Weakening[]
}

/** `catalog` has to be as it was before the changes. */
export function describeChanges(catalog: RuleCatalog, changes: readonly Change[]): ChangeSummary {
  const what: string[] = []
  const overrides = new Map<string, { set: number; removed: number }>()
  const alarms: Weakening[] = []
  for (const change of changes) {
    if (change.kind === 'override') {
      const { rule } = splitOverrideKey(change.id)
      const counts = overrides.get(rule) ?? { set: 0, removed: 0 }
      counts[change.body === null ? 'removed' : 'set']++
      overrides.set(rule, counts)
      continue
    }
    what.push(describe(catalog, change))
    if (change.kind === 'set') alarms.push(...shadowAlarms(catalog.set.shadow, change.body?.shadow))
    if (change.kind === 'rule') {
      const before = protectionOf(catalog.rule(change.id)?.document)
      const found = findWeakenings(before, protectionOf(change.body))
      for (const message of found) alarms.push({ rule: change.id, message })
    }
  }
  for (const [rule, { set, removed }] of overrides) {
    what.push(`rule ${rule}: ${set} overrides set, ${removed} removed`)
  }
  if (what.length <= LISTED_MAX) return { what, alarms }
  const rest = `and ${what.length - LISTED_MAX} more`
  return { what: [...what.slice(0, LISTED_MAX), rest], alarms }
}

/** Returns a warning for each timed shadow that is new or has another end. */
function shadowAlarms(
  before: ShadowDocument = {},
  after: ShadowDocument = {},
): readonly { readonly rule: string; readonly message: string }[] {
  const known = shadowsOf(before)
  return [...shadowsOf(after)]
    .filter(([rule, { until }]) => known.get(rule)?.until !== until)
    .map(([rule, { until }]) => ({ rule, message: `timed shadow: no refusal until ${until}` }))
}

function shadowsOf({ all, rules = {} }: ShadowDocument): ReadonlyMap<string, ShadowEntry> {
  const entries = Object.entries(rules)
  return new Map(all === undefined ? entries : [['all rules', all], ...entries])
}

function describe(catalog: RuleCatalog, { kind, id, body }: Change): string {
  if (kind === 'set') return 'set changed'
  if (kind === 'candidate') return `rule ${id}: candidate ${body === null ? 'removed' : 'set'}`
  if (kind !== 'rule') return `${kind} ${id} ${body === null ? 'removed' : 'set'}`
  if (body === null) return `rule ${id} removed`
  return `rule ${id} ${catalog.rule(id) === undefined ? 'created' : 'changed'}`
}

function protectionOf(document: RuleDocument | null | undefined): Protection | undefined {
  if (!document) return undefined
  return { mode: document['mode'] ?? 'enforce', posture: document['posture'] }
}

export function logChanges(
  log: Log,
  { what, alarms }: ChangeSummary,
  {
    version,
    by,
    why,
  }: { readonly version: number; readonly by: string; readonly why: string | undefined },
): void {
  log.info({ version, by, why, what }, 'rules changed')
  logWeakenings(log, alarms, { version, by, why })
}
