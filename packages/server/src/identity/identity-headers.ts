/**
 * Reads identity headers from the raw header lines. Node joins headers that were sent twice, or
 * drops the second; here duplicates are detected, since another server may read the other one.
 */

/** Stands for a header that was sent more than once. */
export const DUPLICATED = Symbol('twice')

export type HeaderValue = string | undefined | typeof DUPLICATED

export interface IdentityHeaders {
  /** One value for each requested header, in that order. */
  readonly values: readonly HeaderValue[]
  /** The lines of the one header that is a list, in order. */
  readonly lines: readonly string[]
}

interface TrackedHeader {
  readonly name: string
  /** -1: the list. */
  readonly slot: number
}

const LIST = -1
const NO_LINES: readonly string[] = []
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export class HeaderReader {
  /** Indexed by length, which excludes most headers without a comparison. */
  readonly #byLength: (TrackedHeader[] | undefined)[] = []
  readonly #slots: number

  /** Names in lower case. */
  constructor(names: readonly string[], list: string) {
    this.#slots = names.length
    names.forEach((name, slot) => this.track({ name, slot }))
    this.track({ name: list, slot: LIST })
  }

  read(rawHeaders: readonly string[]): IdentityHeaders {
    const values: HeaderValue[] = []
    for (let slot = 0; slot < this.#slots; slot++) values.push(undefined)
    let lines: string[] | undefined
    for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
      const name = rawHeaders[at] ?? ''
      const tracked = this.#byLength[name.length]
      if (tracked === undefined) continue
      const lower = name.toLowerCase()
      for (const { name: other, slot } of tracked) {
        if (other !== lower) continue
        const value = rawHeaders[at + 1] ?? ''
        if (slot === LIST) (lines ??= []).push(value)
        else values[slot] = values[slot] === undefined ? textOf(value) : DUPLICATED
      }
    }
    return { values, lines: lines ?? NO_LINES }
  }

  private track(tracked: TrackedHeader): void {
    const same = this.#byLength[tracked.name.length]
    if (same === undefined) this.#byLength[tracked.name.length] = [tracked]
    else same.push(tracked)
  }
}

/**
 * Decodes UTF-8. Node reads each byte of a header as one character, while rules and JSON are UTF-8:
 * without this, `josé` in a header and in a rule would be two callers. Other bytes stay unchanged.
 */
function textOf(value: string): string {
  for (let at = 0; at < value.length; at++) {
    if (value.charCodeAt(at) > 0x7f) return decode(value)
  }
  return value
}

function decode(value: string): string {
  try {
    return utf8.decode(Buffer.from(value, 'latin1'))
  } catch {
    return value
  }
}
