/** A call as JSON says it: the decision API's own form, a line of our log, or bare attributes. */
import type { Attributes } from '@sluice/client'
import { isRecord, valueToText } from '../rules/rule-text.js'

export interface ParsedCall {
  readonly attributes: Attributes
  /** Undefined: nothing was said. */
  readonly cost?: number | undefined
  /** What the reader made of it, where that needs a word. */
  readonly notes: readonly string[]
  /** Why nothing can be asked; then there are no attributes. */
  readonly problem?: string | undefined
}

export const NAME = /^[a-z][a-z0-9_.-]{0,63}$/
export const failure = (problem: string): ParsedCall => ({ attributes: {}, notes: [], problem })

/** A call as the decision API takes it, a line of our log, or attributes themselves. */
export function parseCallObject(value: Readonly<Record<string, unknown>>): ParsedCall {
  if (isRecord(value['attributes'])) {
    const cost = value['cost']
    const call = parseAttributes(value['attributes'])
    return typeof cost === 'number' ? { ...call, cost } : call
  }
  if ('rule' in value && 'caller' in value) return parseLogLine(value)
  return parseAttributes(value)
}

/** A refusal names its caller by attributes where it was told to, else by a hash. */
function parseLogLine({
  caller,
  rule,
  method,
  path,
}: Readonly<Record<string, unknown>>): ParsedCall {
  const target = parseAttributes(
    Object.fromEntries(
      Object.entries({ method, path }).filter(([, value]) => value !== undefined && value !== ''),
    ),
  )
  if (isRecord(caller)) {
    const parsedCaller = parseAttributes(caller)
    return { ...parsedCaller, attributes: { ...parsedCaller.attributes, ...target.attributes } }
  }
  const hash = valueToText(caller)
  return {
    attributes: target.attributes,
    notes: [
      `The line names the caller of ${valueToText(rule)} by its hash, ${hash}. A hash cannot be turned back into a caller, so add who it was: the attributes that the rule counts by. The answer shows the hash of each caller, to compare.`,
    ],
  }
}

function parseAttributes(value: Readonly<Record<string, unknown>>): ParsedCall {
  const attributes: Record<string, string> = {}
  for (const [name, field] of Object.entries(value)) {
    // Absent, as the decision API has it.
    if (field === null || field === '') continue
    if (!NAME.test(name)) return badNameFailure(name)
    if (typeof field === 'object') {
      return failure(`${name}: found a list or an object; accepted: text, a number, true or false`)
    }
    attributes[name] = valueToText(field)
  }
  return { attributes, notes: [] }
}

export const badNameFailure = (name: string): ParsedCall =>
  failure(
    `found ${JSON.stringify(name.slice(0, 80))} as the name of an attribute; accepted: small letters, digits, "_", "." and "-", a letter first, as in user=u1`,
  )
