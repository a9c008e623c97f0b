/** Parses `identity.keys`: the known API keys and their users. */
import {
  reportAt,
  fieldName,
  fieldOf,
  nearest,
  readAttributeValue,
  readOptional,
  type Located,
} from '@sluice/core/config-reader'
import type { KnownKey } from './config.js'
import { readFields, SECRET_LENGTH_MIN } from './fields.js'
import { readApiKey, readApiKeyHash } from './secrets.js'
import { readItems, readWord } from './values.js'

const KEYS = { items: 'keys', most: 10_000 }
const STATES = ['active', 'disabled'] as const
const FIELDS: readonly string[] = ['key', 'sha256', 'user', 'plan', 'state']
const ACCEPTED_KEY = 'key, or sha256: the SHA-256 of the key in 64 hex digits'

export function readKeys(located: Located): readonly KnownKey[] | undefined {
  const fieldByHash = new Map<string, string>()
  return readItems(hideWithin(located), KEYS, (item) => readKey(item, fieldByHash))
}

/** Hides every long text below this place, whichever field it is in. */
function hideWithin({ node, field, report }: Located): Located {
  return {
    node,
    field,
    report: (finding) => {
      const isLong = finding.found.startsWith('"') && finding.found.length >= SECRET_LENGTH_MIN + 2
      return report(isLong ? { ...finding, found: 'text that is not shown' } : finding)
    },
  }
}

/**
 * Whether a word is similar to a field, and so may be shown. `key:abc` without a space, and text
 * after a comma in an unquoted key, are parsed as fields too.
 */
function isSlip(word: string): boolean {
  return /^[a-z0-9]{1,8}$/i.test(word) && nearest(word, FIELDS) !== undefined
}

function readKey(located: Located, fieldByHash: Map<string, string>): KnownKey | undefined {
  const map = readFields(located, FIELDS, isSlip)
  if (map === undefined) return undefined
  const key = fieldOf(map, 'key')
  const hash = fieldOf(map, 'sha256')
  const user = readOptional(map, 'user', (field) => readAttributeValue(field))
  const plan = readOptional(map, 'plan', (field) => readAttributeValue(field))
  const state = readOptional(map, 'state', (field) => readWord(field, STATES))
  if (key === undefined && hash === undefined) {
    const field = fieldName(map, 'key')
    return reportAt(map, 'missing-field', { field, found: 'nothing', accepted: ACCEPTED_KEY })
  }
  if (key !== undefined && hash !== undefined) {
    return reportAt(hash, 'bad-value', { found: 'beside "key"', accepted: 'one of the two' })
  }
  const sha256 = key === undefined ? hash && readApiKeyHash(hash) : readApiKey(key)
  if (sha256 === undefined) return undefined
  const taken = fieldByHash.get(sha256)
  if (taken !== undefined) {
    const accepted = `each key once; ${taken} is the same`
    return reportAt(key ?? hash ?? map, 'duplicate-value', { found: 'the key', accepted })
  }
  fieldByHash.set(sha256, located.field)
  return { sha256, user, plan, state: state ?? 'active' }
}
