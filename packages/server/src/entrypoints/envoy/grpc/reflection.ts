/**
 * Server reflection: tells tools such as grpcurl which services and messages this server has, so
 * that they can call it without its proto files. Only for people; off unless it is configured.
 */
import { GRPC_CODES } from '../grpc-error.js'
import { BYTES, ProtoReader } from '../protobuf/proto-reader.js'
import { ProtoWriter } from '../protobuf/proto-writer.js'
import { answeringMethod, type StreamMethod } from './grpc-js-server.js'
import { encodeProtoFile, type ProtoFile, symbolsOf } from './proto-file.js'
import { PROTO_FILES } from './proto-files.js'

/** Both versions have the same messages; older tools know only the first one. */
const VERSIONS = ['v1alpha', 'v1']

const tagOf = (field: number) => field * 8 + BYTES
const HOST = 1
const FILE_BY_FILENAME = 3
const FILE_CONTAINING_SYMBOL = 4
const LIST_SERVICES = 7
const ERROR_RESPONSE = 7

interface ReflectionRequest {
  readonly host: string
  /** The number of the field that says what is wanted; 0: nothing that this server knows. */
  readonly wanted: number
  readonly name: string
}

export function reflectionMethods(files: readonly ProtoFile[] = PROTO_FILES): StreamMethod[] {
  const reflection = new Reflection(files)
  return VERSIONS.map((version) =>
    answeringMethod(
      `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
      (message) => reflection.answer(message),
    ),
  )
}

class Reflection {
  readonly #byName: ReadonlyMap<string, ProtoFile>
  readonly #bySymbol: ReadonlyMap<string, ProtoFile>
  readonly #services: readonly string[]

  constructor(files: readonly ProtoFile[]) {
    this.#byName = new Map(files.map((file) => [file.name, file]))
    const symbols = files.flatMap((file) => symbolsOf(file).map((name) => [name, file] as const))
    this.#bySymbol = new Map(symbols)
    this.#services = files.flatMap(({ package: prefix, services = {} }) =>
      Object.keys(services).map((name) => `${prefix}.${name}`),
    )
  }

  answer(message: Uint8Array): Uint8Array {
    const { host, wanted, name } = readRequest(message)
    const writer = new ProtoWriter()
    writer.start()
    writer.string(1, host)
    writer.bytes(2, message)
    if (wanted === LIST_SERVICES) this.writeServices(writer)
    else if (wanted === FILE_BY_FILENAME) this.writeFile(writer, this.#byName.get(name), name)
    else if (wanted === FILE_CONTAINING_SYMBOL) {
      this.writeFile(writer, this.#bySymbol.get(name), name)
    } else writeError(writer, GRPC_CODES.unimplemented, 'not supported')
    return writer.finish()
  }

  private writeServices(writer: ProtoWriter): void {
    const list = writer.begin(6)
    for (const name of this.#services) {
      const service = writer.begin(1)
      writer.string(1, name)
      writer.end(service)
    }
    writer.end(list)
  }

  /** With all files that it imports, so that one question is enough. */
  private writeFile(writer: ProtoWriter, file: ProtoFile | undefined, name: string): void {
    if (file === undefined) return writeError(writer, GRPC_CODES.notFound, `unknown: ${name}`)
    const list = writer.begin(4)
    for (const each of this.withImports(file)) writer.bytes(1, encodeProtoFile(each))
    writer.end(list)
  }

  private withImports(file: ProtoFile): ReadonlySet<ProtoFile> {
    const files = new Set([file])
    for (const { imports = [] } of files) {
      for (const name of imports) {
        const imported = this.#byName.get(name)
        if (imported !== undefined) files.add(imported)
      }
    }
    return files
  }
}

function writeError(writer: ProtoWriter, code: number, message: string): void {
  const error = writer.begin(ERROR_RESPONSE)
  writer.uint32(1, code)
  writer.string(2, message)
  writer.end(error)
}

function readRequest(message: Uint8Array): ReflectionRequest {
  const reader = new ProtoReader(message)
  let host = ''
  let wanted = 0
  let name = ''
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === tagOf(HOST)) host = reader.string()
    else if (WITH_NAME.has(tag)) {
      wanted = (tag - BYTES) / 8
      name = reader.string()
    } else reader.skip(tag)
  }
  return { host, wanted, name }
}

const WITH_NAME: ReadonlySet<number> = new Set(
  [FILE_BY_FILENAME, FILE_CONTAINING_SYMBOL, LIST_SERVICES].map(tagOf),
)
