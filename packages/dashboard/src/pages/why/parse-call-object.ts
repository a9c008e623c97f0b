/** Parses a call from JSON: a decision API request, a log line or an object of attributes. */
import type { Attributes } from '@sluice/client'
import { isRecord, valueText } from '@sluice/core/text'

export interface ParsedCall {
  readonly attributes: Attributes
  /** Undefined: not given. */
  readonly cost?: number | undefined
  /** Remarks about how the input was interpreted. */
  readonly notes: readonly string[]
  /** Why the input is invalid; then there are no attributes. */
  readonly problem?: string | undefined
}

export const NAME = /^[a-z][a-z0-9_.-]{0,63}$/
export const failure = (problem: string): ParsedCall => ({ attributes: {}, notes: [], problem })

/** Accepts a decision API request, a log line or an object of attributes. */
export function parseCallObject(value: Readonly<Record<string, unknown>>): ParsedCall {
  if (isRecord(value['attributes'])) {
    const cost = value['cost']
    const call = parseAttributes(value['attributes'])
    return typeof cost === 'number' ? { ...call, cost } : call
  }
  if ('rule' in value && 'caller' in value) return parseLogLine(value)
  return parseAttributes(value)
}

/** A log line has the caller as attributes if so configured, otherwise as a hash. */
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
  const hash = valueText(caller)
  return {
    attributes: target.attributes,
    notes: [
      `The log line has the caller of ${valueText(rule)} as a hash, ${hash}. A hash cannot be turned back into a caller: add the attributes that the rule counts by. The explanation shows the hash of each caller for comparison.`,
    ],
  }
}

function parseAttributes(value: Readonly<Record<string, unknown>>): ParsedCall {
  const attributes: Record<string, string> = {}
  for (const [name, field] of Object.entries(value)) {
    // Null and empty are absent, as in the decision API.
    if (field === null || field === '') continue
    if (!NAME.test(name)) return badNameFailure(name)
    if (typeof field === 'object') {
      return failure(
        `${name}: lists and objects are not accepted; use text, a number, true or false`,
      )
    }
    attributes[name] = valueText(field)
  }
  return { attributes, notes: [] }
}

export const badNameFailure = (name: string): ParsedCall =>
  failure(
    `${JSON.stringify(name.slice(0, 80))} is not an attribute name: use lowercase letters, digits, "_", "." and "-", starting with a letter, as in user=u1`,
  )
