/** Converts the schemas of @sluice/api to those of OpenAPI documents. */
import { z } from 'zod'

/** The components of a document, by their ids. */
export type Schemas = Record<string, unknown>

/**
 * Converts a schema to JSON Schema, which OpenAPI 3.1 accepts unchanged. Schemas with an id go into
 * `schemas`, and are referenced.
 */
export function schemaOf(schema: z.ZodType, schemas: Schemas): object {
  const json = z.toJSONSchema(schema, { io: 'input', override: simplify })
  const text = JSON.stringify(json).replaceAll('"#/$defs/', '"#/components/schemas/')
  const { $schema: _, $defs, ...own } = JSON.parse(text) as Record<string, unknown>
  Object.assign(schemas, $defs)
  return own
}

interface Converted {
  readonly zodSchema: z.core.$ZodTypes
  readonly jsonSchema: z.core.JSONSchema.BaseSchema
}

/** Removes what zod adds to every integer and every key, and joins `T or null`. */
function simplify({ zodSchema: { _zod }, jsonSchema: json }: Converted): void {
  const isInteger = json.type === 'integer'
  if (isInteger && json.minimum === Number.MIN_SAFE_INTEGER) delete json.minimum
  if (isInteger && json.maximum === Number.MAX_SAFE_INTEGER) delete json.maximum
  if (Object.keys(json.propertyNames ?? {}).join() === 'type') delete json.propertyNames
  // zod omits the default of a text that is converted to a number.
  if (_zod.def.type === 'default') json.default = _zod.def.defaultValue
  const [value, none, ...more] = json.anyOf ?? []
  if (more.length > 0 || none?.type !== 'null' || typeof value?.type !== 'string') return
  delete json.anyOf
  Object.assign(json, value, { type: [value.type, 'null'] })
  if (json.enum !== undefined) json.enum = [...json.enum, null]
}
