/** Reads and hashes API keys that are registered, and generates those that are not given. */
import {
  reportAt,
  createDiagnostics,
  DOCUMENT,
  fieldName,
  fieldOf,
  type MapNode,
  type Problem,
  readAttributeValue,
  readChoice,
  readOptional,
  readText,
  readValue,
  type Located,
} from '@sluice/core/config-reader'
import { readFields } from '../../config/fields.js'
import { readApiKey, readApiKeyHash } from '../../config/secrets.js'
import { keyHash, keyId, sha256Of } from '../store/key-hash.js'
import type { KeyDocument } from '../store/records.js'
import type { KeyPatch } from './editor.js'
import { invalidError, isStorable, unstorableProblem } from './edit-errors.js'

export const KEYS_PER_CALL_MAX = 1000
const NAME_LENGTH_MAX = 128
const LAST_CHARACTERS = 4
const SECRET_BYTES = 32

const FIELDS: readonly string[] = ['key', 'sha256', 'user', 'plan', 'state', 'name']
const PATCH_FIELDS: readonly string[] = ['user', 'plan', 'state', 'name']
const STATES = ['active', 'disabled'] as const

/** A key to register. */
export interface KeyRegistration {
  readonly sha256: string
  /** Undefined if only the hash was given. */
  readonly last4: string | undefined
  /** Undefined if the caller gave the key or its hash. */
  readonly generatedKey: string | undefined
  readonly fields: Pick<KeyDocument, 'user' | 'plan' | 'name' | 'state'>
}

/** Throws an `EditError` that names every problem. */
export function readNewKeys(
  keys: readonly unknown[],
  random: (count: number) => Buffer,
): readonly KeyRegistration[] {
  const problems: Problem[] = []
  const seen = new Map<string, number>()
  const given = keys.flatMap((source, index) => {
    const { value, errors } = read(source, `keys[${index}]`, (spot) => readKey(spot, random))
    problems.push(...errors)
    if (value === undefined) return []
    const first = seen.get(value.sha256)
    if (first !== undefined) problems.push(...duplicateKey(index, first))
    seen.set(value.sha256, index)
    return [value]
  })
  if (problems.length > 0) throw invalidError('key_invalid', problems.slice(0, 100))
  return given
}

function read<Value>(
  source: unknown,
  field: string,
  readSpot: (spot: Located) => Value | undefined,
): { readonly value: Value | undefined; readonly errors: readonly Problem[] } {
  const collector = createDiagnostics({ file: undefined, strict: false, text: undefined })
  const tree = readValue(source)
  if (tree.root === undefined) {
    for (const problem of tree.problems) collector.report({ field, ...problem })
    return { value: undefined, errors: collector.finish().errors }
  }
  const value = readSpot({ node: tree.root, field, report: collector.report })
  const { errors } = collector.finish()
  if (errors.length > 0) return { value: undefined, errors }
  return isStorable(source)
    ? { value, errors }
    : { value, errors: [unstorableProblem(undefined, field)] }
}

function duplicateKey(index: number, first: number): readonly Problem[] {
  const { errors } = read({}, `keys[${index}]`, (spot) =>
    reportAt(spot, 'duplicate-value', {
      found: 'the key',
      accepted: `each key once; keys[${first}] is the same`,
    }),
  )
  return errors
}

function readKey(spot: Located, random: (count: number) => Buffer): KeyRegistration | undefined {
  // `readFields` does not show long names: a key may have been sent as the name of a field.
  const map = readFields(spot, FIELDS)
  if (map === undefined) return undefined
  const fields = readKeyFields(map)
  const key = fieldOf(map, 'key')
  const hash = fieldOf(map, 'sha256')
  if (key !== undefined && hash !== undefined) {
    return reportAt(hash, 'bad-value', { found: 'beside "key"', accepted: 'one of the two' })
  }
  if (hash !== undefined) {
    const sha256 = readApiKeyHash(hash)
    return sha256 === undefined
      ? undefined
      : { sha256, last4: undefined, generatedKey: undefined, fields }
  }
  if (key !== undefined) {
    const sha256 = readApiKey(key)
    if (sha256 === undefined || key.node.kind !== 'scalar') return undefined
    return { sha256, last4: lastOf(String(key.node.value)), generatedKey: undefined, fields }
  }
  const generatedKey = `sk_${random(SECRET_BYTES).toString('base64url')}`
  return { sha256: sha256Of(generatedKey), last4: lastOf(generatedKey), generatedKey, fields }
}

/** Keys have at least 16 characters, so the last ones do not reveal the key. */
function lastOf(key: string): string {
  return key.slice(-LAST_CHARACTERS)
}

function readKeyFields(map: Located<MapNode>): KeyRegistration['fields'] {
  const user = readOptional(map, 'user', (field) => readAttributeValue(field))
  const plan = readOptional(map, 'plan', (field) => readAttributeValue(field))
  const name = readOptional(map, 'name', readName)
  const state = readOptional(map, 'state', (field) => readChoice(field, STATES)) ?? 'active'
  return {
    ...(user === undefined ? {} : { user }),
    ...(plan === undefined ? {} : { plan }),
    ...(name === undefined ? {} : { name }),
    state,
  }
}

function readName(spot: Located): string | undefined {
  const accepted = `text of 1 to ${NAME_LENGTH_MAX} printable characters`
  const text = readText(spot, { accepted, most: NAME_LENGTH_MAX })
  if (text === undefined || isPrintable(text)) return text
  return reportAt(spot, 'bad-value', { accepted })
}

/** Whether the text has a visible character and no control characters or line breaks. */
export function isPrintable(text: string): boolean {
  return /\S/u.test(text) && !/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(text)
}

/** Returns the stored form of a key. Its id is derived from the hash: a key is registered once. */
export function makeKeyRecord(
  registration: KeyRegistration,
  keySecret: string,
  createdAt: string,
): { readonly id: string; readonly document: KeyDocument } {
  const hash = keyHash(keySecret, registration.sha256)
  const { last4, fields } = registration
  const document = { hash, ...fields, ...(last4 === undefined ? {} : { last4 }), createdAt }
  return { id: keyId(hash), document }
}

/** Throws an `EditError` that names every problem. */
export function patchKeyDocument(document: KeyDocument, patch: KeyPatch): KeyDocument {
  const given = Object.entries(patch).filter(([, value]) => value !== undefined)
  const set = Object.fromEntries(given.filter(([, value]) => value !== null))
  const removed = given.filter(([, value]) => value === null).map(([name]) => name)
  const { value, errors } = read(set, DOCUMENT, (spot) => {
    const map = readFields(spot, PATCH_FIELDS)
    for (const name of removed) if (map !== undefined) refuseRemoval(map, name)
    return map === undefined ? undefined : readKeyFields(map)
  })
  if (value === undefined || errors.length > 0) throw invalidError('key_invalid', errors)
  const { state, ...fields } = value
  const patched = { ...document, ...fields, ...('state' in set ? { state } : {}) }
  return Object.fromEntries(
    Object.entries(patched).filter(([name]) => !removed.includes(name)),
  ) as unknown as KeyDocument
}

function refuseRemoval(map: Located<MapNode>, name: string): void {
  if (name !== 'state' && PATCH_FIELDS.includes(name)) return
  const field = fieldName(map, name)
  const accepted = 'null for user, plan and name only'
  reportAt(map, 'bad-value', { field, found: 'null', accepted })
}
