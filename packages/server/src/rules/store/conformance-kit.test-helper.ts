/** Helpers of the conformance suite. */
import { test } from 'vitest'
import { recordKey } from './check-commit.js'
import type { Change, KeyDocument, RuleDocument, StoredRecord } from './records.js'
import type { Commit, Position, RuleStore } from './rule-store.js'

export interface StoreUnderTest {
  readonly store: RuleStore
  /** Opens another handle on the same store, like another node. Absent if only one can exist. */
  readonly connect?: () => Promise<RuleStore>
  /** Closes the store and opens its data again. Absent if it keeps none. */
  readonly reopen?: () => Promise<RuleStore>
  /** Advances the time of the store: moves its clock ahead, or its recorded times back. */
  readonly advance?: (ms: number) => Promise<void>
  /** Makes this many versions more than the store keeps. Absent if it keeps every version. */
  readonly outgrow?: () => Promise<void>
  /** Closes everything that was opened, however often. */
  readonly close: () => Promise<void>
}

/** Makes a test that runs on a new store. */
export type WithStore = (run: (opened: StoreUnderTest) => Promise<void>) => () => Promise<void>

export interface ReadResult {
  readonly isWhole: boolean
  readonly records: readonly StoredRecord[]
  readonly position: Position
  readonly chunkSizes: readonly number[]
}

export async function readAll(store: RuleStore, since?: Position): Promise<ReadResult> {
  const records: StoredRecord[] = []
  const chunkSizes: number[] = []
  let isWhole = false
  for await (const chunk of store.read(since)) {
    if (chunk.isWhole && chunkSizes.length > 0) throw new Error('a later chunk says it is whole')
    isWhole ||= chunk.isWhole
    records.push(...chunk.records)
    chunkSizes.push(chunk.records.length)
    if (chunk.position === undefined) continue
    return { isWhole, records, position: chunk.position, chunkSizes }
  }
  throw new Error('the last chunk has no position')
}

/** Records by `recordKey`, with their bodies alone. */
export type State = Map<string, unknown>

export function stateOf(records: readonly StoredRecord[]): State {
  return new Map(records.map(({ kind, id, body }) => [recordKey(kind, id), body]))
}

export async function stateNow(store: RuleStore): Promise<State> {
  return stateOf((await readAll(store)).records)
}

/** Commits on the present version of the store. */
export async function commit(
  store: RuleStore,
  changes: readonly Change[],
  more: Partial<Omit<Commit, 'changes'>> = {},
): Promise<Position> {
  const base = more.base ?? (await readAll(store)).position.version
  return store.commit({ base, by: 'ada', why: undefined, ...more, changes })
}

export function ruleBody(id: string, perSecond = 1): RuleDocument {
  return { id, by: ['user'], limits: [`${perSecond}/second`] }
}

export function rule(id: string, perSecond = 1): Change {
  return { kind: 'rule', id, body: ruleBody(id, perSecond) }
}

export function noRule(id: string): Change {
  return { kind: 'rule', id, body: null }
}

export function candidate(id: string): Change {
  return { kind: 'candidate', id, body: { limits: ['5/second'] } }
}

export function override(ruleId: string, user: string): Change {
  const body = { caller: { user }, limits: ['7/second'] }
  return { kind: 'override', id: `${ruleId}/user=${user}`, body }
}

export function key(id: string, more: Partial<KeyDocument> = {}): Change & { kind: 'key' } {
  const body: KeyDocument = {
    hash: id.padEnd(64, '0').slice(0, 64),
    state: 'active',
    createdAt: '2026-01-01T00:00:00.000Z',
    ...more,
  }
  return { kind: 'key', id, body }
}

/** `k-0007`: in the order of their numbers. */
export function numbered(prefix: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${String(index).padStart(6, '0')}`)
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

/** A case that does not apply to a store is not registered, so nothing is skipped. */
export function claimIf(applies: boolean): (name: string, run: () => Promise<void>) => void {
  return (name, run) => {
    if (applies) test(name, run)
  }
}
