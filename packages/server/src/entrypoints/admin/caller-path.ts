/**
 * Parses the caller of an override in a URL. Its id, `user=a%2Fb`, is encoded already, so it has
 * two spellings: the id itself (`/overrides/user=a%2Fb`), as in `Location`, and the id encoded once
 * more as a whole (`/overrides/user%3Da%252Fb`), by programs that encode every segment. Only the
 * first has a plain `=`, which distinguishes them.
 */
import { show } from '@sluice/core'
import { callerId } from '../../rules/store/records.js'
import { invalid } from './admin-error.js'

type Caller = Readonly<Record<string, string>>

const EVERYBODY = 'everybody'
const SEGMENT_LENGTH_MAX = 64 * 1024

export interface PathCaller {
  readonly id: string
  readonly caller: Caller
}

export function readPathCaller(segment: string, by: readonly string[]): PathCaller {
  const caller =
    segment.length > SEGMENT_LENGTH_MAX
      ? undefined
      : (readId(segment, by) ?? readId(decode(segment) ?? '', by))
  if (caller !== undefined) return { id: callerId(by, caller), caller }
  const accepted = by.length === 0 ? EVERYBODY : by.map((name) => `${name}=<value>`).join(',')
  throw invalid('caller', `"${show(segment)}"`, `${accepted}, each value percent-encoded`)
}

/** Accepts attributes in any order, each of them once. */
function readId(text: string, by: readonly string[]): Caller | undefined {
  if (by.length === 0) return text === EVERYBODY ? {} : undefined
  // If there is one attribute, a comma can only be part of its value.
  const parts = by.length === 1 ? [text] : text.split(',')
  if (parts.length !== by.length) return undefined
  const values = new Map<string, string>()
  for (const part of parts) {
    const equals = part.indexOf('=')
    const name = part.slice(0, Math.max(equals, 0))
    const value = decode(part.slice(equals + 1))
    if (!by.includes(name) || value === undefined || value === '') return undefined
    values.set(name, value)
  }
  return values.size === by.length ? Object.fromEntries(values) : undefined
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** The `by` of a rule document: a list, one name, or nothing. */
export function byOf({ by }: Readonly<Record<string, unknown>>): readonly string[] {
  if (typeof by === 'string') return [by]
  return Array.isArray(by) ? by.filter((name) => typeof name === 'string') : []
}
