/**
 * Normalizes the callers of overrides, so that a caller of a rule has one override however it is
 * written.
 */
import {
  canonicalValue,
  type Attributes,
  IPV6_PREFIX_DEFAULT,
  parseOverride,
  type Rule,
  RuleCache,
  type RuleContext,
} from '@sluice/core'
import type { Problem } from '@sluice/core/config-reader'
import { isJsonMap } from '../../lib/json-map.js'
import { ID_BYTES_MAX } from '../store/check-commit.js'
import { callerId, type OverrideDocument, overrideKey } from '../store/records.js'
import { makeProblem, isStorable, unstorableProblem } from './edit-errors.js'

export interface CallerOptions {
  /** Masks the values of secret attributes, as they are stored. */
  readonly hideSecrets: (attributes: Attributes) => Attributes
  /** How many bits of an IPv6 address identify a caller. @default 64 */
  readonly ipv6Prefix?: number | undefined
  /** What is known of this node. @default nothing */
  readonly ruleContext?: RuleContext | undefined
}

export interface CallerContext extends CallerOptions {
  readonly strictPaths: boolean
}

interface NormalizedOverride {
  /** The `callerId` of the override. */
  readonly id: string
  readonly document: OverrideDocument
}

type Caller = Readonly<Record<string, string>>

/** Returns the caller with the values that calls have, in the order of `by`. */
export function canonicalCaller(
  by: readonly string[],
  caller: Caller,
  context: CallerContext,
): Caller {
  const { strictPaths, ipv6Prefix = IPV6_PREFIX_DEFAULT } = context
  const options = { strictPaths, ipv6Prefix }
  return Object.fromEntries(
    by.map((name) => [name, canonicalValue(name, caller[name] ?? '', options)]),
  )
}

function hide(caller: Caller, { hideSecrets }: CallerOptions): Caller {
  const hidden = Object.entries(hideSecrets(caller))
  return Object.fromEntries(hidden.map(([name, value]) => [name, String(value)]))
}

/**
 * Returns the normalized id of a caller that may be written in another form, or with a secret;
 * undefined if the text is not a caller of the rule.
 */
export function readCallerId(
  by: readonly string[],
  text: string,
  context: CallerContext,
): string | undefined {
  if (by.length === 0) return text === 'everybody' ? text : undefined
  const parts = text.split(',')
  const values: [string, string][] = []
  for (const [index, name] of by.entries()) {
    const part = parts[index]
    if (part?.startsWith(`${name}=`) !== true) return undefined
    const value = decode(part.slice(name.length + 1))
    if (value === undefined) return undefined
    values.push([name, value])
  }
  if (parts.length !== by.length) return undefined
  return callerId(by, canonicalCaller(by, hide(Object.fromEntries(values), context), context))
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** Checks one override against its rule, and returns its stored form or the problems. */
function normalizeOverride(
  rule: Rule,
  source: unknown,
  context: CallerContext & { readonly cache: RuleCache },
): NormalizedOverride | readonly Problem[] {
  // The parser reports any source that is not an override.
  const { override, errors } = parseOverride(rule, source as object, context)
  if (override === undefined || !isJsonMap(source)) return errors
  const given = hide(Object.fromEntries(override.caller), context)
  const caller = canonicalCaller(rule.by, given, context)
  const { limits, until } = source as Pick<OverrideDocument, 'limits' | 'until'>
  const document = { caller, limits, ...(until === undefined ? {} : { until }) }
  if (!isStorable(document)) return [unstorableProblem(rule.id, 'caller')]
  const id = callerId(rule.by, caller)
  const bytes = Buffer.byteLength(overrideKey(rule.id, id))
  if (bytes <= ID_BYTES_MAX) return { id, document }
  return [
    makeProblem({
      code: 'too-long',
      rule: rule.id,
      field: 'caller',
      found: `${bytes} bytes as "${id.slice(0, 20)}..."`,
      accepted: `up to ${ID_BYTES_MAX} bytes with the id of the rule, encoded as in a URL`,
    }),
  ]
}

/** Normalizes several overrides of one rule. A caller that occurs twice is a problem. */
export function normalizeOverrides(
  rule: Rule,
  sources: readonly unknown[],
  context: CallerContext,
): {
  readonly documents: ReadonlyMap<string, OverrideDocument>
  readonly problems: readonly Problem[]
} {
  // Many overrides of one list have the same few limits.
  const withCache = { ...context, cache: new RuleCache() }
  const documents = new Map<string, OverrideDocument>()
  const problems: Problem[] = []
  const indexById = new Map<string, number>()
  for (const [index, source] of sources.entries()) {
    const found = normalizeOverride(rule, source, withCache)
    if (!('id' in found)) {
      problems.push(...found.map((problem) => atIndex(problem, index)))
      continue
    }
    const first = indexById.get(found.id)
    if (first !== undefined) problems.push(duplicate(rule, found.id, [first, index]))
    indexById.set(found.id, index)
    documents.set(found.id, found.document)
  }
  return { documents, problems: problems.slice(0, PROBLEMS_MAX) }
}

const PROBLEMS_MAX = 100

function duplicate(rule: Rule, id: string, [first, second]: readonly [number, number]): Problem {
  return makeProblem({
    code: 'duplicate-override',
    rule: rule.id,
    field: `overrides[${second}]`,
    found: id,
    why: `overrides[${first}]`,
    accepted: 'one override for each caller',
  })
}

/** Returns the problem with its place in the list of overrides, as in a rules file. */
function atIndex(problem: Problem, index: number): Problem {
  const list = `overrides[${index}]`
  const field = isWhole(problem.field) ? list : `${list}.${problem.field}`
  // Problems of objects have no line: the message contains the field once.
  const message = problem.message.replace(`${problem.field}: `, `${field}: `)
  return { ...problem, field, message }
}

function isWhole(field: string): boolean {
  return field === 'override' || field === 'document' || field === 'rule'
}
