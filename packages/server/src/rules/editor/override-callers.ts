/**
 * Who an override is for, in the one form that stands for a caller: however it is written, one
 * caller of a rule has one override.
 */
import {
  canonicalValue,
  type Attributes,
  IPV6_PREFIX_DEFAULT,
  parseOverride,
  type Rule,
} from '@sluice/core'
import type { Problem } from '@sluice/core/config-reader'
import { isJsonMap } from '../../lib/json-map.js'
import { ID_BYTES_MAX } from '../store/check-commit.js'
import { callerId, type OverrideDocument, overrideKey } from '../store/records.js'
import { makeProblem, isStorable, unstorableProblem } from './edit-errors.js'

export interface CallerOptions {
  /** Makes the stored form of attributes that are secret. */
  readonly hideSecrets: (attributes: Attributes) => Attributes
  /** How many bits of an IPv6 address make a caller. @default 64 */
  readonly ipv6Prefix?: number | undefined
  /** Attributes that callers may set themselves, by a header. @default not known */
  readonly fromHeaders?: ReadonlySet<string> | undefined
}

export interface CallerContext extends CallerOptions {
  readonly strictPaths: boolean
}

interface NormalizedOverride {
  /** `callerId` of it. */
  readonly id: string
  readonly document: OverrideDocument
}

type Caller = Readonly<Record<string, string>>

/** The caller as calls have it; in the order of `by`. */
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
 * What somebody gave as the id of a caller, perhaps with a secret or spelled otherwise; undefined
 * if it is no caller of the rule.
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

/** One override of a rule, checked against it; or what is wrong with it. */
function normalizeOverride(
  rule: Rule,
  source: unknown,
  context: CallerContext,
): NormalizedOverride | readonly Problem[] {
  // Whatever it is, the parser says what it should be.
  const { override, errors } = parseOverride(rule, source as object)
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

/** Several of one rule. A caller that comes twice is told of. */
export function normalizeOverrides(
  rule: Rule,
  sources: readonly unknown[],
  context: CallerContext,
): {
  readonly documents: ReadonlyMap<string, OverrideDocument>
  readonly problems: readonly Problem[]
} {
  const documents = new Map<string, OverrideDocument>()
  const problems: Problem[] = []
  const indexById = new Map<string, number>()
  for (const [index, source] of sources.entries()) {
    const found = normalizeOverride(rule, source, context)
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

/** The place of a problem within a list of overrides, as a rules file would have it. */
function atIndex(problem: Problem, index: number): Problem {
  const list = `overrides[${index}]`
  const field = isWhole(problem.field) ? list : `${list}.${problem.field}`
  // Objects have no line: a message is the rule, the field and the rest.
  const message = problem.message.replace(`${problem.field}: `, `${field}: `)
  return { ...problem, field, message }
}

function isWhole(field: string): boolean {
  return field === 'override' || field === 'document' || field === 'rule'
}
