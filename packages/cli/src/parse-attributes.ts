/** Parses attributes on a command line: `user=u1`. */
import { show } from '@sluice/core'
import { UsageError } from './command-errors.js'

const NAME = /^[a-z][a-z0-9_.-]{0,63}$/

/** Every word is an attribute of the call; its value is everything after the first `=`. */
export function parseAttributes(words: readonly string[]): Readonly<Record<string, string>> {
  const attributes = new Map<string, string>()
  for (const word of words) {
    const equals = word.indexOf('=')
    const name = word.slice(0, Math.max(equals, 0))
    if (!NAME.test(name)) {
      throw new UsageError(
        `found "${show(word)}"; accepted: name=value, as in user=u1 or path=/v1/orders`,
      )
    }
    if (attributes.has(name))
      throw new UsageError(`found "${name}" twice; accepted: each attribute once`)
    attributes.set(name, word.slice(equals + 1))
  }
  return Object.fromEntries(attributes)
}
