/** Reads and writes `google.protobuf.Struct`, which is JSON as protobuf. */
import type { JsonObject, JsonValue } from '../../../lib/json-map.js'
import { BYTES, FIXED64, ProtoError, type ProtoReader, VARINT } from './proto-reader.js'
import type { ProtoWriter } from './proto-writer.js'

/** Lists and maps within each other. Metadata of limits has a few. */
const LEVELS_MAX = 32

const STRUCT_FIELDS = 8 + BYTES
const FIELD_KEY = 8 + BYTES
const FIELD_VALUE = 2 * 8 + BYTES
const VALUE_NULL = 8 + VARINT
const VALUE_NUMBER = 2 * 8 + FIXED64
const VALUE_STRING = 3 * 8 + BYTES
const VALUE_BOOL = 4 * 8 + VARINT
const VALUE_STRUCT = 5 * 8 + BYTES
const VALUE_LIST = 6 * 8 + BYTES
const LIST_VALUES = 8 + BYTES

/** How many values may still be read, for all structs that share it. */
export interface StructBudget {
  values: number
}

/** A name and its value: pairs, so that `__proto__` is a name like any other. */
export type StructField = readonly [string, JsonValue]

/**
 * Reads the struct in this field, and adds what it has to `fields`: a struct that is sent in
 * several parts is one. Throws a ProtoError for one that is nested too deeply or too large.
 */
export function readStructFields(
  reader: ProtoReader,
  fields: StructField[],
  budget: StructBudget,
): void {
  new StructReader(reader, budget).readFields(fields, 1)
}

class StructReader {
  readonly #reader: ProtoReader
  readonly #budget: StructBudget

  constructor(reader: ProtoReader, budget: StructBudget) {
    this.#reader = reader
    this.#budget = budget
  }

  readFields(fields: StructField[], level: number): void {
    requireLevel(level)
    const reader = this.#reader
    const outer = reader.enter()
    for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
      if (tag === STRUCT_FIELDS) fields.push(this.readField(level))
      else reader.skip(tag)
    }
    reader.leave(outer)
  }

  private readField(level: number): StructField {
    this.countValue()
    const reader = this.#reader
    const outer = reader.enter()
    let key = ''
    let value: JsonValue = null
    for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
      if (tag === FIELD_KEY) key = reader.string()
      else if (tag === FIELD_VALUE) value = this.readValue(level)
      else reader.skip(tag)
    }
    reader.leave(outer)
    return [key, value]
  }

  private readValue(level: number): JsonValue {
    const reader = this.#reader
    const outer = reader.enter()
    let value: JsonValue = null
    for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
      if (tag === VALUE_STRING) value = reader.string()
      else if (tag === VALUE_NUMBER) value = reader.double()
      else if (tag === VALUE_BOOL) value = reader.bool()
      else if (tag === VALUE_STRUCT) value = this.readStruct(level + 1)
      else if (tag === VALUE_LIST) value = this.readList(level + 1)
      else {
        if (tag === VALUE_NULL) value = null
        reader.skip(tag)
      }
    }
    reader.leave(outer)
    return value
  }

  private readStruct(level: number): JsonObject {
    const fields: StructField[] = []
    this.readFields(fields, level)
    return Object.fromEntries(fields)
  }

  private readList(level: number): readonly JsonValue[] {
    requireLevel(level)
    const reader = this.#reader
    const outer = reader.enter()
    const values: JsonValue[] = []
    for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
      if (tag === LIST_VALUES) {
        this.countValue()
        values.push(this.readValue(level))
      } else reader.skip(tag)
    }
    reader.leave(outer)
    return values
  }

  private countValue(): void {
    if (this.#budget.values-- <= 0) throw new ProtoError('too many values in metadata')
  }
}

function requireLevel(level: number): void {
  if (level > LEVELS_MAX) throw new ProtoError(`metadata has more than ${LEVELS_MAX} levels`)
}

/** Writes the fields of a struct, whose map is a list of pairs. */
export function writeStruct(writer: ProtoWriter, fields: JsonObject): void {
  for (const key in fields) {
    if (!Object.hasOwn(fields, key)) continue
    const begun = writer.begin(1)
    writer.string(1, key)
    const value = writer.begin(2)
    writeValue(writer, fields[key] ?? null)
    writer.end(value)
    writer.end(begun)
  }
}

/** A `google.protobuf.Value`: one of its fields is always present. */
function writeValue(writer: ProtoWriter, value: JsonValue): void {
  if (value === null) return writer.presentVarint(1, 0)
  if (typeof value === 'number') return writer.presentDouble(2, value)
  if (typeof value === 'string') return writer.presentString(3, value)
  if (typeof value === 'boolean') return writer.presentVarint(4, value ? 1 : 0)
  if (isList(value)) {
    const begun = writer.begin(6)
    for (const item of value) {
      const each = writer.begin(1)
      writeValue(writer, item)
      writer.end(each)
    }
    return writer.end(begun)
  }
  const begun = writer.begin(5)
  writeStruct(writer, value)
  writer.end(begun)
}

function isList(value: readonly JsonValue[] | JsonObject): value is readonly JsonValue[] {
  return Array.isArray(value)
}
