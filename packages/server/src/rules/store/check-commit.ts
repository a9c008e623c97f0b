/**
 * Checks that every rule store makes before it writes a commit. The bounds are a safety net: the
 * editor has tighter ones, with better messages.
 */
import type { Change } from './records.js'
import { COMMIT_CHANGES_MAX, type Commit } from './rule-store.js'

export const ID_BYTES_MAX = 1024
const BODY_LENGTH_MAX = 4 * 1024 * 1024
const BY_LENGTH_MAX = 1024
const WHY_LENGTH_MAX = 10_000

/** Text that a JSON column or a UTF-8 file cannot hold: NUL and lone surrogates. */
const UNSTORABLE = /\0|\p{Surrogate}/u
/** How such text may look in JSON: a quick test before the exact one. */
const UNSTORABLE_JSON = /\\u(?:0000|d[89a-f])/i

/** Throws a `RangeError`. */
export function checkCommit({ by, why, changes }: Commit): void {
  checkMeta(by, why)
  if (changes.length === 0) throw new RangeError('found a commit without changes')
  if (changes.length > COMMIT_CHANGES_MAX) {
    const found = `found ${changes.length} changes in one commit`
    throw new RangeError(`${found}; accepted: at most ${COMMIT_CHANGES_MAX}`)
  }
  const seen = new Set<string>()
  for (const { kind, id } of changes) {
    checkText('the id of a record', id, ID_BYTES_MAX)
    if (id === '') throw new RangeError(`found a ${kind} with an empty id`)
    const record = recordKey(kind, id)
    if (seen.has(record)) throw new RangeError(`found two changes of ${kind} ${id} in one commit`)
    seen.add(record)
  }
}

/** Checks who commits, and why. Throws a `RangeError`. */
export function checkMeta(by: string, why: string | undefined): void {
  checkText('who commits', by, BY_LENGTH_MAX)
  if (why !== undefined) checkText('why', why, WHY_LENGTH_MAX)
}

/** Returns the body as JSON text that every store can hold. Throws a `RangeError` if none can. */
export function bodyText({ kind, id, body }: Change): string {
  const text: string | undefined = JSON.stringify(body)
  if (text === undefined) throw new RangeError(`${kind} ${id}: found no JSON`)
  if (text.length > BODY_LENGTH_MAX) {
    const found = `found a body of ${text.length} characters`
    throw new RangeError(`${kind} ${id}: ${found}; accepted: at most ${BODY_LENGTH_MAX}`)
  }
  if (UNSTORABLE_JSON.test(text)) {
    JSON.stringify(body, (name, value: unknown) => {
      checkText(`a name in ${kind} ${id}`, name, BODY_LENGTH_MAX)
      if (typeof value === 'string') checkText(`${kind} ${id}`, value, BODY_LENGTH_MAX)
      return value
    })
  }
  return text
}

/** Returns a unique key of a record. Kinds contain no space. */
export function recordKey(kind: string, id: string): string {
  return `${kind} ${id}`
}

function checkText(what: string, text: string, bytesMax: number): void {
  if (UNSTORABLE.test(text)) {
    throw new RangeError(`${what}: found NUL or a lone surrogate; accepted: any other text`)
  }
  const bytes = Buffer.byteLength(text)
  if (bytes > bytesMax) {
    throw new RangeError(`${what}: found ${bytes} bytes; accepted: at most ${bytesMax}`)
  }
}
