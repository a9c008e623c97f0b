/** Patterns in which each `*` stands for any characters, also for none. */
import { WILDCARD } from './domain-config.js'

export interface ValuePattern {
  readonly prefix: string
  /** Parts between the first and the last `*`, in their order. */
  readonly middle: readonly string[]
  readonly suffix: string
  /** No shorter text matches. */
  readonly lengthMin: number
}

/** The text has at least one `*`. */
export function compilePattern(text: string): ValuePattern {
  const parts = text.split(WILDCARD)
  const prefix = parts[0] ?? ''
  const suffix = parts.at(-1) ?? ''
  const middle = parts.slice(1, -1).filter((part) => part !== '')
  const lengthMin = parts.reduce((length, part) => length + part.length, 0)
  return { prefix, middle, suffix, lengthMin }
}

/**
 * Each part is searched once, after the one before it: taking the first place of each leaves the
 * most for the others.
 */
export function matchesPattern(pattern: ValuePattern, text: string): boolean {
  const { prefix, middle, suffix, lengthMin } = pattern
  if (text.length < lengthMin || !text.startsWith(prefix) || !text.endsWith(suffix)) return false
  const end = text.length - suffix.length
  let at = prefix.length
  for (let i = 0; i < middle.length; i++) {
    const part = middle[i] ?? ''
    const found = text.indexOf(part, at)
    if (found === -1 || found + part.length > end) return false
    at = found + part.length
  }
  return true
}
