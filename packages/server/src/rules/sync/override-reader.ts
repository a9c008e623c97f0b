/** Turns updates of overrides into changes of a limiter. An invalid one does not affect others. */
import type { OverrideChange, Rule } from '@sluice/core'
import { callerId, type OverrideDocument, overrideKey, splitOverrideKey } from '../store/records.js'
import type { CatalogUpdate, RuleCatalog } from './rule-catalog.js'
import type { RuleParser } from './rule-parser.js'
import { deepEqual } from '../../lib/deep-equal.js'
import { CooperativeYield } from '../../lib/cooperative-yield.js'

type RulesById = ReadonlyMap<string, Rule>

export interface RefusedOverride {
  readonly problem: string
  /** The document before, which stays active in its place. */
  readonly lastGood: OverrideDocument | undefined
}

type RefusedOverrides = ReadonlyMap<string, RefusedOverride>

export interface ParsedOverrides {
  readonly changes: readonly OverrideChange[]
  /** Overrides that are not active as the catalog has them, by key. */
  readonly refused: RefusedOverrides
}

export interface OverrideReaderInput {
  readonly catalog: RuleCatalog
  readonly update: CatalogUpdate
  /** The active rules, and those of this update, by id. */
  readonly before: RulesById
  readonly after: RulesById
  /** Refused by earlier updates. */
  readonly refused: RefusedOverrides
}

/** Returns the rules of `after` whose overrides have to be parsed again: their basis changed. */
function rulesToReread(before: RulesById, after: RulesById): ReadonlySet<string> {
  const ids = new Set<string>()
  for (const [id, rule] of after) {
    const known = before.get(id)
    if (known === rule) continue
    if (known === undefined || !deepEqual(basisOf(known), basisOf(rule))) ids.add(id)
  }
  return ids
}

function basisOf({ by, cost, coordination, posture }: Rule): object {
  return { by, cost, coordination, posture }
}

export async function readOverrides(input: OverrideReaderInput): Promise<ParsedOverrides> {
  const { catalog, update, before, after } = input
  const slices = new CooperativeYield()
  const accumulator = new OverrideAccumulator(catalog.parser, after, input.refused)
  const rereading = rulesToReread(before, after)
  for (const { key, before: old, after: document } of update.overrides()) {
    if (slices.isDue()) await slices.pause()
    if (document === undefined) accumulator.remove(key)
    else if (accumulator.isNew(key, old, document)) accumulator.read(key, document, old)
  }
  for (const rule of rereading) {
    for (const { id, document } of catalog.allOverrides(rule)) {
      if (slices.isDue()) await slices.pause()
      const key = overrideKey(rule, id)
      if (!accumulator.wasRead(key)) accumulator.read(key, document, undefined)
    }
  }
  accumulator.forgetRemovedRules()
  return accumulator
}

class OverrideAccumulator implements ParsedOverrides {
  readonly changes: OverrideChange[] = []
  readonly refused: Map<string, RefusedOverride>
  readonly #parser: RuleParser
  readonly #rules: RulesById
  readonly #read = new Set<string>()

  constructor(parser: RuleParser, rules: RulesById, refused: RefusedOverrides) {
    this.#parser = parser
    this.#rules = rules
    this.refused = new Map(refused)
  }

  isNew(key: string, before: OverrideDocument | undefined, after: OverrideDocument): boolean {
    return before === undefined || this.refused.has(key) || !deepEqual(before, after)
  }

  wasRead(key: string): boolean {
    return this.#read.has(key)
  }

  read(key: string, document: OverrideDocument, before: OverrideDocument | undefined): void {
    const id = splitOverrideKey(key)
    const rule = this.#rules.get(id.rule)
    // A rule that is not active has no active overrides; they are read when it is activated.
    if (rule === undefined) return
    this.#read.add(key)
    const read = this.readOne(rule, id.caller, document)
    if (typeof read !== 'string') {
      this.refused.delete(key)
      this.changes.push(read)
      return
    }
    const lastGood = this.refused.get(key)?.lastGood ?? before
    const replacement = lastGood === undefined ? '' : this.readOne(rule, id.caller, lastGood)
    const isGood = typeof replacement !== 'string'
    if (isGood) this.changes.push(replacement)
    this.refused.set(key, { problem: read, lastGood: isGood ? lastGood : undefined })
  }

  remove(key: string): void {
    this.refused.delete(key)
    const { rule: id, caller } = splitOverrideKey(key)
    const rule = this.#rules.get(id)
    const named = rule === undefined ? undefined : callerOfId(rule.by, caller)
    if (named !== undefined) this.changes.push({ rule: id, caller: named, override: undefined })
  }

  /** Drops refused overrides of rules that were removed. */
  forgetRemovedRules(): void {
    for (const key of this.refused.keys()) {
      if (!this.#rules.has(splitOverrideKey(key).rule)) this.refused.delete(key)
    }
  }

  /** Returns the change, or what is wrong with the document. */
  private readOne(rule: Rule, id: string, document: unknown): OverrideChange | string {
    if (typeof document !== 'object' || document === null) {
      return `found ${typeof document}; accepted: a map with caller and limits`
    }
    const { override, errors } = this.#parser.parseOverride(rule, document)
    if (override === undefined) return errors.map(({ message }) => message).join('; ')
    const { caller } = override
    // An override is removed by its id, so the id has to be that of its caller.
    const accepted = idOf(rule.by, caller)
    if (accepted === id) return { rule: rule.id, caller, override }
    return `rule "${rule.id}": an override with the id ${id} has another caller; accepted: ${accepted}`
  }
}

function idOf(by: readonly string[], caller: ReadonlyMap<string, string>): string {
  try {
    return callerId(by, Object.fromEntries(caller))
  } catch {
    // A lone surrogate cannot be encoded in an id.
    return 'an id without lone surrogates'
  }
}

/** The inverse of `callerId`; undefined if the id is not that of a caller of the rule. */
function callerOfId(by: readonly string[], id: string): ReadonlyMap<string, string> | undefined {
  if (by.length === 0) return id === callerId([], {}) ? new Map() : undefined
  const parts = id.split(',')
  if (parts.length !== by.length) return undefined
  const caller = new Map<string, string>()
  try {
    for (const [index, name] of by.entries()) {
      const part = parts[index] ?? ''
      if (!part.startsWith(`${name}=`)) return undefined
      caller.set(name, decodeURIComponent(part.slice(name.length + 1)))
    }
  } catch {
    // A percent sign without a valid escape.
    return undefined
  }
  return caller
}
