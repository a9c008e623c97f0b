export type JsonMap = Readonly<Record<string, unknown>>

/** Whether a JSON value is a map: not null, not a list, not a scalar. */
export function isJsonMap(value: unknown): value is JsonMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject

export interface JsonObject {
  readonly [name: string]: JsonValue
}
