/**
 * The definition of ratelimit.config.ratelimit.v3, which no package of npm has, for the codec of a
 * library: what it writes is what a control plane sends.
 */
import { fromJSON, type MessageTypeDefinition } from '@grpc/proto-loader'

const CONFIG = 'ratelimit.config.ratelimit.v3.RateLimitConfig'

const field = (id: number, type: string, rule?: 'repeated') => ({ id, type, rule })
const message = (fields: object) => ({ fields })

const definitions = fromJSON(
  {
    nested: {
      google: {
        nested: {
          protobuf: {
            nested: {
              Struct: {
                fields: { fields: { keyType: 'string', type: 'Value', id: 1 } },
              },
              Value: {
                oneofs: {
                  kind: {
                    oneof: [
                      'null_value',
                      'number_value',
                      'string_value',
                      'bool_value',
                      'struct_value',
                      'list_value',
                    ],
                  },
                },
                fields: {
                  null_value: field(1, 'NullValue'),
                  number_value: field(2, 'double'),
                  string_value: field(3, 'string'),
                  bool_value: field(4, 'bool'),
                  struct_value: field(5, 'Struct'),
                  list_value: field(6, 'ListValue'),
                },
              },
              NullValue: { values: { NULL_VALUE: 0 } },
              ListValue: message({ values: field(1, 'Value', 'repeated') }),
            },
          },
        },
      },
      ratelimit: {
        nested: {
          config: {
            nested: {
              ratelimit: {
                nested: {
                  v3: {
                    nested: {
                      RateLimitConfig: message({
                        name: field(1, 'string'),
                        domain: field(2, 'string'),
                        descriptors: field(3, 'RateLimitDescriptor', 'repeated'),
                      }),
                      RateLimitDescriptor: message({
                        key: field(1, 'string'),
                        value: field(2, 'string'),
                        rate_limit: field(3, 'RateLimitPolicy'),
                        descriptors: field(4, 'RateLimitDescriptor', 'repeated'),
                        shadow_mode: field(5, 'bool'),
                        detailed_metric: field(6, 'bool'),
                        quota_mode: field(7, 'bool'),
                        metadata: field(8, 'google.protobuf.Struct'),
                      }),
                      RateLimitPolicy: message({
                        unit: field(1, 'RateLimitUnit'),
                        requests_per_unit: field(2, 'uint32'),
                        unlimited: field(3, 'bool'),
                        name: field(4, 'string'),
                        replaces: field(5, 'RateLimitReplace', 'repeated'),
                      }),
                      RateLimitReplace: message({ name: field(1, 'string') }),
                      RateLimitUnit: {
                        values: {
                          UNKNOWN: 0,
                          SECOND: 1,
                          MINUTE: 2,
                          HOUR: 3,
                          DAY: 4,
                          MONTH: 5,
                          YEAR: 6,
                          WEEK: 7,
                        },
                      },
                    },
                  },
                },
              },
            },
          },
        },
      },
    },
  } as unknown as Parameters<typeof fromJSON>[0],
  { keepCase: true, enums: String, defaults: true },
)

/** As the official definitions name the fields. */
export interface OfficialConfig {
  readonly name?: string
  readonly domain?: string
  readonly descriptors?: readonly OfficialDescriptor[]
}

export interface OfficialDescriptor {
  readonly key?: string
  readonly value?: string
  readonly rate_limit?: {
    readonly unit?: string | number
    readonly requests_per_unit?: number
    readonly unlimited?: boolean
    readonly name?: string
    readonly replaces?: readonly { readonly name?: string }[]
  }
  readonly descriptors?: readonly OfficialDescriptor[]
  readonly shadow_mode?: boolean
  readonly detailed_metric?: boolean
  readonly quota_mode?: boolean
  readonly metadata?: object
}

export function encodeConfig(config: OfficialConfig): Buffer {
  const definition = definitions[CONFIG] as MessageTypeDefinition<object, object>
  return definition.serialize(config)
}

/** A JSON value as `google.protobuf.Value` has it. */
function protoValue(value: unknown): object {
  if (value === null) return { null_value: 'NULL_VALUE' }
  if (typeof value === 'number') return { number_value: value }
  if (typeof value === 'string') return { string_value: value }
  if (typeof value === 'boolean') return { bool_value: value }
  if (Array.isArray(value)) return { list_value: { values: value.map(protoValue) } }
  return { struct_value: protoStruct(value as object) }
}

export function protoStruct(fields: object): object {
  return {
    fields: Object.fromEntries(
      Object.entries(fields).map(([key, value]) => [key, protoValue(value)]),
    ),
  }
}
