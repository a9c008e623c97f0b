import { loadFileDescriptorSetFromBuffer, type PackageDefinition } from '@grpc/proto-loader'
import { expect, test } from 'vitest'
import { closeAfterEach, startGrpc, TestClient } from '../envoy.test-helper.js'
import { officialMessage } from '../protobuf/official-protos.test-helper.js'
import { ProtoWriter } from '../protobuf/proto-writer.js'
import { encodeProtoFile } from './proto-file.js'
import { PROTO_FILES } from './proto-files.js'
import { reflectionMethods } from './reflection.js'

closeAfterEach()

const VERSIONS = ['v1', 'v1alpha']
const RLS = 'envoy/service/ratelimit/v3/rls.proto'

interface Reflected {
  readonly file_descriptor_response?: { readonly file_descriptor_proto: readonly Buffer[] } | null
  readonly list_services_response?: { readonly service: readonly object[] } | null
  readonly error_response?: { readonly error_code: number; readonly error_message: string } | null
}

async function reflect(requests: readonly object[], version = 'v1'): Promise<Reflected[]> {
  const { target } = await startGrpc({ streams: reflectionMethods() })
  const stream = new TestClient(target).reflect(version)
  const received: Reflected[] = []
  const ended = new Promise((resolve, reject) => {
    stream.on('end', resolve)
    stream.on('error', reject)
  })
  stream.on('data', (response: Reflected) => received.push(response))
  for (const request of requests) stream.write(request)
  stream.end()
  await ended
  return received
}

function definitionsOf(files: readonly Uint8Array[]): PackageDefinition {
  const writer = new ProtoWriter()
  writer.start()
  for (const file of files) writer.bytes(1, file)
  const options = { keepCase: true, longs: Number, enums: String, defaults: true }
  return loadFileDescriptorSetFromBuffer(writer.finish(), options)
}

test.each(VERSIONS)('%s lists the services', async (version) => {
  const [answer] = await reflect([{ host: 'h', list_services: '*' }], version)
  expect(answer).toMatchObject({
    valid_host: 'h',
    list_services_response: {
      service: [
        { name: 'envoy.service.ratelimit.v3.RateLimitService' },
        { name: 'envoy.service.rate_limit_quota.v3.RateLimitQuotaService' },
        { name: 'grpc.health.v1.Health' },
      ],
    },
  })
})

test.each([
  ['a service', { file_containing_symbol: 'envoy.service.ratelimit.v3.RateLimitService' }],
  [
    'a method',
    { file_containing_symbol: 'envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit' },
  ],
  [
    'a message in a message',
    { file_containing_symbol: 'envoy.service.ratelimit.v3.RateLimitResponse.RateLimit' },
  ],
  ['a file', { file_by_filename: RLS }],
])('the file of %s is sent with all that it imports', async (_what, request) => {
  const [answer] = await reflect([request])
  const files = answer?.file_descriptor_response?.file_descriptor_proto ?? []
  expect(files).toHaveLength(8)
  const definitions = definitionsOf(files)
  expect(definitions).toHaveProperty(['envoy.service.ratelimit.v3.RateLimitService'])
})

test('what is unknown is an error of its question, and others are answered', async () => {
  const answers = await reflect([
    { file_by_filename: 'other.proto' },
    { file_containing_symbol: 'other.Service' },
    { all_extension_numbers_of_type: 'google.protobuf.Struct' },
    { file_by_filename: 'google/protobuf/duration.proto' },
  ])
  expect(answers.map(({ error_response: error }) => error?.error_code)).toEqual([
    5,
    5,
    12,
    undefined,
  ])
  expect(answers[3]?.file_descriptor_response?.file_descriptor_proto).toHaveLength(1)
})

test('bytes that are no message end the stream', async () => {
  const [method] = reflectionMethods()
  const handler = method?.open({ send: () => true, end() {} })
  expect(() => handler?.onMessage(Buffer.from([0x0a, 5]))).toThrow('a field exceeds its message')
})

test('the described messages are those of the official definitions', () => {
  const described = definitionsOf(PROTO_FILES.map(encodeProtoFile))
  const samples: readonly (readonly [string, object])[] = [
    [
      'envoy.service.ratelimit.v3.RateLimitRequest',
      {
        domain: 'd',
        hits_addend: 3,
        descriptors: [
          {
            entries: [{ key: 'k', value: 'v' }],
            limit: { requests_per_unit: 5, unit: 'DAY' },
          },
        ],
      },
    ],
    [
      'envoy.service.ratelimit.v3.RateLimitResponse',
      {
        overall_code: 'OVER_LIMIT',
        statuses: [
          {
            code: 'OVER_LIMIT',
            current_limit: { requests_per_unit: 5, unit: 'YEAR', name: 'n' },
            limit_remaining: 4,
            duration_until_reset: { seconds: 3, nanos: 2 },
            quota: { requests: 1, valid_until: { seconds: 9 }, id: 'q' },
          },
        ],
        response_headers_to_add: [{ key: 'a', value: 'b' }],
        request_headers_to_add: [{ key: 'c', value: 'd' }],
        raw_body: Buffer.from('body'),
      },
    ],
    ['grpc.health.v1.HealthCheckRequest', { service: 's' }],
    ['grpc.health.v1.HealthCheckResponse', { status: 'NOT_SERVING' }],
  ]
  for (const [name, message] of samples) {
    const definition = described[name]
    if (definition === undefined || !('serialize' in definition)) throw new Error(`no ${name}`)
    const bytes = (definition.serialize as (value: object) => Buffer)(message)
    expect(bytes, name).toEqual(officialMessage(name).encode(message))
  }
})

test('a described Struct has the fields of the official one', () => {
  const name = 'envoy.service.ratelimit.v3.RateLimitResponse'
  const described = definitionsOf(PROTO_FILES.map(encodeProtoFile))[name]
  if (described === undefined || !('serialize' in described)) throw new Error('no response')
  // The library that reads descriptions takes a map as the list of pairs that it is in bytes.
  const fields = [
    { key: 'a', value: { number_value: 1 } },
    { key: 'b', value: { list_value: { values: [{ null_value: 'NULL_VALUE' }] } } },
    { key: 'c', value: { struct_value: { fields: [] } } },
  ]
  const bytes = (described.serialize as (value: object) => Buffer)({ dynamic_metadata: { fields } })
  const official = {
    a: { numberValue: 1 },
    b: { listValue: { values: [{ nullValue: 'NULL_VALUE' }] } },
    c: { structValue: { fields: {} } },
  }
  expect(bytes).toEqual(officialMessage(name).encode({ dynamic_metadata: { fields: official } }))
})

test('without the methods reflection is UNIMPLEMENTED', async () => {
  const { target } = await startGrpc()
  const stream = new TestClient(target).reflect('v1')
  const error = await new Promise((resolve) => stream.on('error', resolve))
  expect(error).toMatchObject({ code: 12 })
})
