/**
 * Prepares rule documents that callers send: copies them, so that later changes to the objects have
 * no effect, separates candidate and overrides, and applies patches.
 */
import { isJsonMap, type JsonMap } from '../../lib/json-map.js'
import type { CandidateDocument, RuleDocument } from '../store/records.js'
import type { RuleDocuments } from '../sync/rule-parser.js'

/** More than rules may have: the parser refuses what exceeds it and is not copied. */
const COPY_DEPTH_MAX = 24
const COPY_NODES_MAX = 1_100_000

/** Fields that the admin API adds to its responses, and that may be sent back with them. */
export const RESPONSE_FIELDS: readonly string[] = ['version', 'overrideCount', 'shadowUntil']
export const RESPONSE_SET_FIELDS: readonly string[] = ['version', 'next', 'shadowUntil']

/** A valid rule, separated into its documents. */
export interface RuleInput extends RuleDocuments {
  /** Undefined: not given, so the stored ones stay. */
  readonly overrides: readonly object[] | undefined
}

/** Copies lists and plain objects; the rest is immutable, or refused by the parser. */
export function copyPlain(value: unknown): unknown {
  return copy(value, 1, { left: COPY_NODES_MAX })
}

function copy(value: unknown, depth: number, nodes: { left: number }): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (depth > COPY_DEPTH_MAX || nodes.left-- <= 0) return value
  if (Array.isArray(value)) return value.map((item) => copy(item, depth + 1, nodes))
  if (!isPlain(value)) return value
  // `fromEntries` makes `__proto__` an own field too, unlike an assignment.
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, field]) => field !== undefined)
      .map(([key, field]) => [key, copy(field, depth + 1, nodes)]),
  )
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function without(map: JsonMap, fields: readonly string[]): JsonMap {
  return Object.fromEntries(Object.entries(map).filter(([key]) => !fields.includes(key)))
}

/** Copies a rule, without the fields that the admin API adds. */
export function copyRule(document: unknown): unknown {
  const copied = copyPlain(document)
  return isJsonMap(copied) ? without(copied, RESPONSE_FIELDS) : copied
}

/** Copies a whole set, a list of rules or a map with rules, without those fields. */
export function copySet(source: object): object {
  const copied = copyPlain(source)
  if (Array.isArray(copied)) return copied.map(dropResponseFields)
  if (!isJsonMap(copied)) return source
  const set = without(copied, RESPONSE_SET_FIELDS)
  return Array.isArray(set['rules']) ? { ...set, rules: set['rules'].map(dropResponseFields) } : set
}

function dropResponseFields(rule: unknown): unknown {
  return isJsonMap(rule) ? without(rule, RESPONSE_FIELDS) : rule
}

/** Separates a valid rule into its documents. */
export function separateRule(rule: unknown): RuleInput {
  if (!isJsonMap(rule)) throw new TypeError('a rule without problems is a map')
  const isWhole = rule['candidate'] !== undefined || rule['overrides'] !== undefined
  return {
    // The same object if nothing is removed from it, since its parsed form is kept by identity.
    document: (isWhole ? without(rule, ['candidate', 'overrides']) : rule) as RuleDocument,
    candidate: rule['candidate'] as CandidateDocument | undefined,
    overrides: rule['overrides'] as readonly object[] | undefined,
  }
}

/** RFC 7396: maps are merged field by field, null removes a field, anything else replaces it. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isJsonMap(patch)) return patch
  const merged = new Map(isJsonMap(target) ? Object.entries(target) : [])
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) merged.delete(key)
    else merged.set(key, mergePatch(merged.get(key), value))
  }
  return Object.fromEntries(merged)
}

const sizes = new WeakMap<object, number>()

/** Returns the length of a document as JSON. */
export function sizeOf(document: object): number {
  let size = sizes.get(document)
  if (size === undefined) sizes.set(document, (size = JSON.stringify(document).length))
  return size
}
