/** What the schemas of this package are made with. */
import { z } from 'zod'

/** Makes what was parsed read-only, all the way down. */
type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T

/** The same where an optional field is absent, and never present as undefined. */
type DeepExact<T> = T extends readonly (infer Item)[]
  ? readonly DeepExact<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: DeepExact<Exclude<T[Key], undefined>> }
    : T

/** The type of what the server sends: JSON has no undefined. */
export type View<Schema extends z.ZodType> = DeepExact<z.output<Schema>>

/** The type of what a client sends: a field that is undefined is left out of the JSON. */
export type Input<Schema extends z.ZodType> = DeepReadonly<z.input<Schema>>

/** An object with these keys and no others. Its error message lists the keys. */
export function strictObject<Shape extends z.ZodRawShape>(
  shape: Shape,
): z.ZodObject<Shape, z.core.$strict> {
  return z.strictObject(shape, { error: Object.keys(shape).join(', ') })
}

/** A version of the rule store. */
export const version = z.int().min(0)
/** JSON that another reader checks, such as the reader of rules. */
export const anyJson = z.unknown()
export const anyList = z.array(z.unknown())
export const count = z.number().min(0)
export const instant = z.string().meta({ example: '2026-01-01T00:00:00.000Z' })
