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

/** Reads the struct in this field. Throws a ProtoError for one that is nested too deeply. */
export function readStruct(reader: ProtoReader, level = 1): JsonObject {
  requireLevel(level)
  const outer = reader.enter()
  // Pairs, so that `__proto__` is a name like any other.
  const fields: (readonly [string, JsonValue])[] = []
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === STRUCT_FIELDS) fields.push(readField(reader, level))
    else reader.skip(tag)
  }
  reader.leave(outer)
  return Object.fromEntries(fields)
}

function requireLevel(level: number): void {
  if (level > LEVELS_MAX) throw new ProtoError(`metadata has more than ${LEVELS_MAX} levels`)
}

function readField(reader: ProtoReader, level: number): readonly [string, JsonValue] {
  const outer = reader.enter()
  let key = ''
  let value: JsonValue = null
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === FIELD_KEY) key = reader.string()
    else if (tag === FIELD_VALUE) value = readValue(reader, level)
    else reader.skip(tag)
  }
  reader.leave(outer)
  return [key, value]
}

function readValue(reader: ProtoReader, level: number): JsonValue {
  const outer = reader.enter()
  let value: JsonValue = null
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === VALUE_STRING) value = reader.string()
    else if (tag === VALUE_NUMBER) value = reader.double()
    else if (tag === VALUE_BOOL) value = reader.bool()
    else if (tag === VALUE_STRUCT) value = readStruct(reader, level + 1)
    else if (tag === VALUE_LIST) value = readList(reader, level + 1)
    else {
      if (tag === VALUE_NULL) value = null
      reader.skip(tag)
    }
  }
  reader.leave(outer)
  return value
}

function readList(reader: ProtoReader, level: number): readonly JsonValue[] {
  requireLevel(level)
  const outer = reader.enter()
  const values: JsonValue[] = []
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === LIST_VALUES) values.push(readValue(reader, level))
    else reader.skip(tag)
  }
  reader.leave(outer)
  return values
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
