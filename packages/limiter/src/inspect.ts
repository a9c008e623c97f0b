/** Shows counters as they are stored, for operators. Charges and decides nothing. */
import {
  type Block,
  blockStart,
  type Call,
  callersOf,
  limitsOfCaller,
  type CompiledRule,
  counterKey,
  formatHash,
  isBlock,
  isConcurrency,
  type Limit,
  type Log,
  type NamedCaller,
  type PlaceHolder,
  placeHolders,
  type Places,
  type PlannedTake,
  SluiceError,
  shortenLog,
  show,
  type Snapshot,
} from '@sluice/core'
import { requireCall } from './limiter-options.js'
import type { PeekOutcome, RegionPeek, Store } from './store.js'

/**
 * The caller of a call in one rule. Values are shown in clear text: access control is up to the
 * entry point.
 */
export interface InspectedCaller {
  readonly rule: string
  readonly caller: Readonly<Record<string, string>>
  /** The hash that logs show instead of the caller. */
  readonly hash: string
}

export interface InspectedCounter {
  /** The name of the limit. */
  readonly limit: string
  /** `limits`, `tiers.plan.pro`, `override`, `override of 10.0.0.0/8`, `candidate.limits`. */
  readonly where: string
  /** The key as the store spells it. */
  readonly key: string
  readonly partition: number
  /** The address of the server that holds it; null if it is in this process. */
  readonly node: string | null
  /**
   * The state as the algorithm keeps it, times in microseconds. For a log: its units, oldest and
   * newest instant, and the number of instants, at most 64. For places: how many are taken, and by
   * how many holders. Null if there is none, so that the caller has its whole budget.
   */
  readonly state: Readonly<Record<string, number>> | null
  /** Milliseconds until it expires; null if it does not exist or is in this process. */
  readonly ttlMs: number | null
  /** Its memory in the store; null if it does not exist. */
  readonly bytes: number | null
  readonly remaining: number
  readonly resetAfterMs: number
  /** Set for a limit of concurrency: who holds places, and until when if it does not renew them. */
  readonly holders?: readonly PlaceHolder[]
  /** Set for the block beside a limit, which is a counter of its own, directly after its limit. */
  readonly block?: InspectedBlock
  /** The same counter in each other region; absent if there is only one. */
  readonly regions?: readonly InspectedRegion[]
}

/** The counter of a limit in another region, or why it could not be read. */
export type InspectedRegion =
  | {
      readonly region: string
      readonly state: Readonly<Record<string, number>> | null
      readonly remaining: number
      readonly resetAfterMs: number
    }
  | { readonly region: string; readonly problem: string }

/** The last block of a caller; it is over if `resetAfterMs` of its counter is 0. */
export interface InspectedBlock {
  /** When it began and when it ends, in milliseconds since 1970; null if there was none. */
  readonly sinceMs: number | null
  readonly untilMs: number | null
  /** How many there were in a row. */
  readonly times: number
}

export interface Inspection extends InspectedCaller {
  /** Empty if the rule has no limit for this caller. */
  readonly counters: readonly InspectedCounter[]
}

const IDS_SHOWN = 5

/** The state of a limit that this node counts itself; undefined if the store counts it. */
type InspectOnNode = (take: PlannedTake) => PeekOutcome | undefined

export async function inspectCounters(
  store: Pick<Store, 'peek' | 'peekRegions' | 'inspector'>,
  snapshot: Snapshot,
  request: { readonly rule: string; readonly call: Call; readonly wallMs: number },
  inspectOnNode: InspectOnNode = () => undefined,
): Promise<Inspection> {
  requireCall(request.call)
  const rule = requireRule(snapshot, request.rule)
  const standing = limitsOfCaller(snapshot, rule, request.call, request.wallMs)
  const takes = standing.places.flatMap(({ where, limits }) =>
    limits.flatMap((compiled) => {
      const counted = compiled.block === undefined ? [compiled] : [compiled, compiled.block]
      return counted.map((each) => {
        const key = counterKey(standing.caller, each)
        return { where, key, limit: each.limit, amount: 0, compiled }
      })
    }),
  )
  const [peeked = []] = takes.length === 0 ? [] : await store.peek([takes], { states: true })
  const counters = takes.map(async ({ where, ...take }, i): Promise<InspectedCounter> => {
    const { key, limit, compiled } = take
    const isOnNode = compiled.coordination === 'split' || compiled.coordination === 'node'
    const onNode = isOnNode ? inspectOnNode(take) : undefined
    const peek = onNode ?? peeked[i]
    if (peek === undefined) throw new Error('The store left out a counter')
    const elsewhere = onNode === undefined ? await store.peekRegions?.(take) : undefined
    const stored = onNode === undefined ? await store.inspector?.inspect(key, limit) : undefined
    return {
      limit: limit.name,
      where,
      key: stored?.key ?? formatHash(key),
      partition: key.partition,
      node: stored?.node ?? null,
      state: stateOf(peek.state, limit),
      ttlMs: stored?.ttlMs ?? null,
      bytes: stored?.bytes ?? null,
      remaining: peek.remaining,
      resetAfterMs: peek.resetAfterMs,
      ...(isConcurrency(limit) ? { holders: placeHolders((peek.state ?? []) as Places) } : {}),
      ...(elsewhere === undefined
        ? {}
        : { regions: elsewhere.map((each) => inspectedRegion(each, limit)) }),
      ...(isBlock(limit) ? { block: inspectedBlock(peek.state as Block | undefined, limit) } : {}),
    }
  })
  return { ...inspectedCaller(standing), counters: await Promise.all(counters) }
}

/** The caller of a call in each rule that matches. */
export function inspectCallers(
  snapshot: Snapshot,
  call: Call,
  wallMs: number,
): readonly InspectedCaller[] {
  requireCall(call)
  return callersOf(snapshot, call, wallMs).map(inspectedCaller)
}

function inspectedCaller({ rule, caller, values }: NamedCaller): InspectedCaller {
  return { rule: rule.id, caller: Object.fromEntries(values), hash: formatHash(caller) }
}

function inspectedRegion(peeked: RegionPeek, limit: Limit): InspectedRegion {
  if ('problem' in peeked) return peeked
  const { region, outcome } = peeked
  const { remaining, resetAfterMs } = outcome
  return { region, state: stateOf(outcome.state, limit), remaining, resetAfterMs }
}

function inspectedBlock(block: Block | undefined, limit: Limit): InspectedBlock {
  if (block === undefined) return { sinceMs: null, untilMs: null, times: 0 }
  const sinceMs = Math.floor(blockStart(block, limit) / 1000)
  return { sinceMs, untilMs: Math.ceil(block.until / 1000), times: block.times }
}

function requireRule({ rules, byId }: Snapshot, id: string): CompiledRule {
  const rule = byId.get(id)
  if (rule !== undefined) return rule
  const ids = rules.slice(0, IDS_SHOWN).map((known) => known.id)
  const accepted = ids.length === 0 ? 'none, as there is no rule' : `such as ${ids.join(', ')}`
  throw new SluiceError(
    'RULE_UNKNOWN',
    `rule: found "${show(id)}"; accepted: the id of a rule in force, ${accepted}`,
  )
}

function stateOf(state: unknown, limit: Limit): InspectedCounter['state'] {
  if (state === undefined || state === null) return null
  if (!Array.isArray(state)) return state as Readonly<Record<string, number>>
  if (isConcurrency(limit)) {
    const holders = placeHolders(state as Places)
    return { places: holders.reduce((sum, each) => sum + each.places, 0), holders: holders.length }
  }
  const log = shortenLog(state as Log)
  let units = 0
  for (let i = 1; i < log.length; i += 2) units += log[i] ?? 0
  return { units, instants: log.length / 2, oldest: log[0] ?? 0, newest: log.at(-2) ?? 0 }
}
