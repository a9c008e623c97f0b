/** The official definitions of the messages, as an oracle for what is written by hand here. */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { ServiceDefinition } from '@grpc/grpc-js'
import { loadSync, type MessageTypeDefinition } from '@grpc/proto-loader'

const require = createRequire(import.meta.url)
const folderOf = (name: string) => dirname(require.resolve(`${name}/package.json`))

const XDS = join(folderOf('@grpc/grpc-js-xds'), 'deps')
const PROTO_FOLDERS = ['envoy-api', 'xds', 'googleapis', 'protoc-gen-validate'].map((folder) =>
  join(XDS, folder),
)
const REFLECTION = join(folderOf('@grpc/reflection'), 'build/proto/grpc/reflection')

const definitions = loadSync(
  [
    'envoy/service/ratelimit/v3/rls.proto',
    'envoy/service/rate_limit_quota/v3/rlqs.proto',
    'envoy/service/discovery/v3/ads.proto',
    join(folderOf('grpc-health-check'), 'proto/health/v1/health.proto'),
    join(REFLECTION, 'v1/reflection.proto'),
    join(REFLECTION, 'v1alpha/reflection.proto'),
  ],
  { includeDirs: PROTO_FOLDERS, keepCase: true, longs: Number, enums: String, defaults: true },
)

export interface OfficialMessage {
  encode(message: object): Buffer
  decode(bytes: Uint8Array): object
}

/** The codec of a message by its full name. */
export function officialMessage(name: string): OfficialMessage {
  const definition = definitions[name] as MessageTypeDefinition<object, object> | undefined
  if (definition === undefined || !('serialize' in definition)) throw new Error(`no ${name}`)
  return {
    encode: (message) => definition.serialize(message),
    decode: (bytes) => definition.deserialize(Buffer.from(bytes)),
  }
}

/** A service by its full name, for clients. */
export function officialService(name: string): ServiceDefinition {
  const definition = definitions[name]
  if (definition === undefined || 'format' in definition) throw new Error(`no ${name}`)
  return definition
}
