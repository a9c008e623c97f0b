/** Writes proto files, described as data, as the `FileDescriptorProto` that reflection sends. */
import { ProtoWriter } from '../protobuf/proto-writer.js'

export interface ProtoField {
  readonly number: number
  /** A scalar, `.` and the full name of a message, or `enum .` and that of an enum. */
  readonly type: string
  readonly isRepeated?: boolean
  /** The `oneof` that it belongs to. */
  readonly oneof?: string
}

export interface ProtoMessage {
  readonly fields?: Readonly<Record<string, ProtoField>>
  readonly messages?: Readonly<Record<string, ProtoMessage>>
  readonly enums?: Readonly<Record<string, ProtoEnum>>
  /** Whether it is the pair of a map. */
  readonly isMapEntry?: boolean
}

type ProtoEnum = Readonly<Record<string, number>>

interface ProtoMethod {
  readonly input: string
  readonly output: string
  readonly streams?: 'server' | 'both'
}

export interface ProtoFile {
  readonly name: string
  readonly package: string
  readonly imports?: readonly string[]
  readonly messages?: Readonly<Record<string, ProtoMessage>>
  readonly enums?: Readonly<Record<string, ProtoEnum>>
  readonly services?: Readonly<Record<string, Readonly<Record<string, ProtoMethod>>>>
}

const SCALARS: Readonly<Record<string, number>> = {
  double: 1,
  int64: 3,
  uint64: 4,
  int32: 5,
  bool: 8,
  string: 9,
  bytes: 12,
  uint32: 13,
}
const MESSAGE = 11
const ENUM = 14
const ENUM_PREFIX = 'enum '
const OPTIONAL = 1
const REPEATED = 3

/** The full names of all that a tool may ask for: services, methods, messages and enums. */
export function symbolsOf(file: ProtoFile): readonly string[] {
  const services = Object.entries(file.services ?? {}).flatMap(([name, methods]) => [
    `${file.package}.${name}`,
    ...Object.keys(methods).map((method) => `${file.package}.${name}.${method}`),
  ])
  return [...services, ...typesIn(file, file.package)]
}

function typesIn({ messages = {}, enums = {} }: ProtoMessage, prefix: string): readonly string[] {
  const inside = Object.entries(messages).flatMap(([name, message]) => [
    `${prefix}.${name}`,
    ...typesIn(message, `${prefix}.${name}`),
  ])
  return [...inside, ...Object.keys(enums).map((name) => `${prefix}.${name}`)]
}

export function encodeProtoFile(file: ProtoFile): Uint8Array {
  const writer = new ProtoWriter()
  writer.start()
  writer.string(1, file.name)
  writer.string(2, file.package)
  for (const name of file.imports ?? []) writer.string(3, name)
  writeAll(writer, 4, file.messages, writeMessage)
  writeAll(writer, 5, file.enums, writeEnum)
  writeAll(writer, 6, file.services, writeService)
  writer.string(12, 'proto3')
  return writer.finish()
}

/** Writes each entry of a map as a message whose first field is its name. */
function writeAll<T>(
  writer: ProtoWriter,
  field: number,
  entries: Readonly<Record<string, T>> = {},
  write: (writer: ProtoWriter, entry: T) => void,
): void {
  for (const [name, entry] of Object.entries(entries)) {
    const begun = writer.begin(field)
    writer.string(1, name)
    write(writer, entry)
    writer.end(begun)
  }
}

function writeMessage(writer: ProtoWriter, message: ProtoMessage): void {
  const { fields = {}, messages, enums, isMapEntry = false } = message
  const oneofs = [...new Set(Object.values(fields).flatMap(({ oneof }) => oneof ?? []))]
  writeAll(writer, 2, fields, (_, field) => writeField(writer, field, oneofs))
  writeAll(writer, 3, messages, writeMessage)
  writeAll(writer, 4, enums, writeEnum)
  if (isMapEntry) {
    const options = writer.begin(7)
    writer.bool(7, true)
    writer.end(options)
  }
  for (const name of oneofs) {
    const oneof = writer.begin(8)
    writer.string(1, name)
    writer.end(oneof)
  }
}

function writeField(writer: ProtoWriter, field: ProtoField, oneofs: readonly string[]): void {
  const { number, type, isRepeated = false, oneof } = field
  const isEnum = type.startsWith(ENUM_PREFIX)
  writer.uint32(3, number)
  writer.uint32(4, isRepeated ? REPEATED : OPTIONAL)
  writer.uint32(5, SCALARS[type] ?? (isEnum ? ENUM : MESSAGE))
  if (SCALARS[type] === undefined) writer.string(6, isEnum ? type.slice(ENUM_PREFIX.length) : type)
  if (oneof !== undefined) writer.presentVarint(9, oneofs.indexOf(oneof))
}

function writeEnum(writer: ProtoWriter, values: ProtoEnum): void {
  writeAll(writer, 2, values, (_, number) => writer.presentVarint(2, number))
}

function writeService(writer: ProtoWriter, methods: Readonly<Record<string, ProtoMethod>>): void {
  writeAll(writer, 2, methods, (_, { input, output, streams }) => {
    writer.string(2, input)
    writer.string(3, output)
    writer.bool(5, streams === 'both')
    writer.bool(6, streams !== undefined)
  })
}
