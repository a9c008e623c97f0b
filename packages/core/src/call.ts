/** A call: one thing that wants to happen, with its attributes and a cost. */

/** Named facts of a call. Numbers and booleans count as their decimal text; empty is absent. */
export type Attributes = Readonly<Record<string, string | number | boolean | null | undefined>>

export interface Call {
  readonly attributes: Attributes
  /** How much the call takes: a whole number, default 1. 0 asks for nothing and always passes. */
  readonly cost?: number | undefined
}

/** A longer value is no identity but an attack on whoever stores it. */
export const ATTRIBUTE_LENGTH_MAX = 8192

/** One attribute as text, or undefined where it is absent or empty. */
export function readAttribute(attributes: Attributes, name: string): string | undefined {
  const value = attributes[name]
  if (typeof value === 'string') return value === '' ? undefined : value
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  return undefined
}
