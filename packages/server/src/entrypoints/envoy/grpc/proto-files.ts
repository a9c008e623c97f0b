/**
 * The services of this server and their messages, as reflection describes them. Files of Envoy have
 * only what this server reads and writes; names and numbers are Envoy's.
 */
import type { ProtoField, ProtoFile, ProtoMessage } from './proto-file.js'

type FieldOptions = Omit<ProtoField, 'number' | 'type'>

const field = (number: number, type: string, options: FieldOptions = {}): ProtoField => ({
  number,
  type,
  ...options,
})
const repeated = (number: number, type: string) => field(number, type, { isRepeated: true })

const DURATION = 'google/protobuf/duration.proto'
const STRUCT = 'google/protobuf/struct.proto'
const TIMESTAMP = 'google/protobuf/timestamp.proto'
const WRAPPERS = 'google/protobuf/wrappers.proto'
const BASE = 'envoy/config/core/v3/base.proto'
const DESCRIPTOR = 'envoy/extensions/common/ratelimit/v3/ratelimit.proto'
const UNIT = 'envoy/type/v3/ratelimit_unit.proto'
const TOKEN_BUCKET = 'envoy/type/v3/token_bucket.proto'
const STRATEGY = 'envoy/type/v3/ratelimit_strategy.proto'

const secondsAndNanos: ProtoMessage = {
  fields: { seconds: field(1, 'int64'), nanos: field(2, 'int32') },
}

const GOOGLE: readonly ProtoFile[] = [
  { name: DURATION, package: 'google.protobuf', messages: { Duration: secondsAndNanos } },
  { name: TIMESTAMP, package: 'google.protobuf', messages: { Timestamp: secondsAndNanos } },
  {
    name: WRAPPERS,
    package: 'google.protobuf',
    messages: {
      UInt32Value: { fields: { value: field(1, 'uint32') } },
      UInt64Value: { fields: { value: field(1, 'uint64') } },
    },
  },
  {
    name: STRUCT,
    package: 'google.protobuf',
    enums: { NullValue: { NULL_VALUE: 0 } },
    messages: {
      Struct: {
        fields: { fields: repeated(1, '.google.protobuf.Struct.FieldsEntry') },
        messages: {
          FieldsEntry: {
            fields: { key: field(1, 'string'), value: field(2, '.google.protobuf.Value') },
            isMapEntry: true,
          },
        },
      },
      Value: {
        fields: {
          null_value: field(1, 'enum .google.protobuf.NullValue', { oneof: 'kind' }),
          number_value: field(2, 'double', { oneof: 'kind' }),
          string_value: field(3, 'string', { oneof: 'kind' }),
          bool_value: field(4, 'bool', { oneof: 'kind' }),
          struct_value: field(5, '.google.protobuf.Struct', { oneof: 'kind' }),
          list_value: field(6, '.google.protobuf.ListValue', { oneof: 'kind' }),
        },
      },
      ListValue: { fields: { values: repeated(1, '.google.protobuf.Value') } },
    },
  },
]

const UNITS = { UNKNOWN: 0, SECOND: 1, MINUTE: 2, HOUR: 3, DAY: 4, MONTH: 5, YEAR: 6 }

const ENVOY_TYPES: readonly ProtoFile[] = [
  {
    name: BASE,
    package: 'envoy.config.core.v3',
    messages: {
      HeaderValue: {
        fields: {
          key: field(1, 'string'),
          value: field(2, 'string'),
          raw_value: field(3, 'bytes'),
        },
      },
    },
  },
  { name: UNIT, package: 'envoy.type.v3', enums: { RateLimitUnit: UNITS } },
  {
    name: TOKEN_BUCKET,
    package: 'envoy.type.v3',
    imports: [DURATION, WRAPPERS],
    messages: {
      TokenBucket: {
        fields: {
          max_tokens: field(1, 'uint32'),
          tokens_per_fill: field(2, '.google.protobuf.UInt32Value'),
          fill_interval: field(3, '.google.protobuf.Duration'),
        },
      },
    },
  },
  {
    name: STRATEGY,
    package: 'envoy.type.v3',
    imports: [UNIT, TOKEN_BUCKET],
    messages: {
      RateLimitStrategy: {
        fields: {
          blanket_rule: field(1, 'enum .envoy.type.v3.RateLimitStrategy.BlanketRule', {
            oneof: 'strategy',
          }),
          requests_per_time_unit: field(2, '.envoy.type.v3.RateLimitStrategy.RequestsPerTimeUnit', {
            oneof: 'strategy',
          }),
          token_bucket: field(3, '.envoy.type.v3.TokenBucket', { oneof: 'strategy' }),
        },
        enums: { BlanketRule: { ALLOW_ALL: 0, DENY_ALL: 1 } },
        messages: {
          RequestsPerTimeUnit: {
            fields: {
              requests_per_time_unit: field(1, 'uint64'),
              time_unit: field(2, 'enum .envoy.type.v3.RateLimitUnit'),
            },
          },
        },
      },
    },
  },
  {
    name: DESCRIPTOR,
    package: 'envoy.extensions.common.ratelimit.v3',
    imports: [UNIT, WRAPPERS],
    messages: {
      RateLimitDescriptor: {
        fields: {
          entries: repeated(1, '.envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry'),
          limit: field(
            2,
            '.envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.RateLimitOverride',
          ),
          hits_addend: field(3, '.google.protobuf.UInt64Value'),
          is_negative_hits: field(4, 'bool'),
        },
        messages: {
          Entry: { fields: { key: field(1, 'string'), value: field(2, 'string') } },
          RateLimitOverride: {
            fields: {
              requests_per_unit: field(1, 'uint32'),
              unit: field(2, 'enum .envoy.type.v3.RateLimitUnit'),
            },
          },
        },
      },
    },
  },
]

const RESPONSE = '.envoy.service.ratelimit.v3.RateLimitResponse'

const RESPONSE_MESSAGE: ProtoMessage = {
  fields: {
    overall_code: field(1, `enum ${RESPONSE}.Code`),
    statuses: repeated(2, `${RESPONSE}.DescriptorStatus`),
    response_headers_to_add: repeated(3, '.envoy.config.core.v3.HeaderValue'),
    request_headers_to_add: repeated(4, '.envoy.config.core.v3.HeaderValue'),
    raw_body: field(5, 'bytes'),
    dynamic_metadata: field(6, '.google.protobuf.Struct'),
    quota: field(7, `${RESPONSE}.Quota`),
  },
  enums: { Code: { UNKNOWN: 0, OK: 1, OVER_LIMIT: 2 } },
  messages: {
    RateLimit: {
      fields: {
        requests_per_unit: field(1, 'uint32'),
        unit: field(2, `enum ${RESPONSE}.RateLimit.Unit`),
        name: field(3, 'string'),
      },
      enums: { Unit: { ...UNITS, WEEK: 7 } },
    },
    Quota: {
      fields: {
        requests: field(1, 'uint32'),
        valid_until: field(2, '.google.protobuf.Timestamp', { oneof: 'expiration_specifier' }),
        id: field(3, 'string'),
      },
    },
    DescriptorStatus: {
      fields: {
        code: field(1, `enum ${RESPONSE}.Code`),
        current_limit: field(2, `${RESPONSE}.RateLimit`),
        limit_remaining: field(3, 'uint32'),
        duration_until_reset: field(4, '.google.protobuf.Duration'),
        quota: field(5, `${RESPONSE}.Quota`),
      },
    },
  },
}

const RATE_LIMIT: ProtoFile = {
  name: 'envoy/service/ratelimit/v3/rls.proto',
  package: 'envoy.service.ratelimit.v3',
  imports: [BASE, DESCRIPTOR, DURATION, STRUCT, TIMESTAMP],
  messages: {
    RateLimitRequest: {
      fields: {
        domain: field(1, 'string'),
        descriptors: repeated(2, '.envoy.extensions.common.ratelimit.v3.RateLimitDescriptor'),
        hits_addend: field(3, 'uint32'),
      },
    },
    RateLimitResponse: RESPONSE_MESSAGE,
  },
  services: {
    RateLimitService: {
      ShouldRateLimit: {
        input: '.envoy.service.ratelimit.v3.RateLimitRequest',
        output: RESPONSE,
      },
    },
  },
}

const QUOTA = '.envoy.service.rate_limit_quota.v3'
const USAGE_REPORTS = `${QUOTA}.RateLimitQuotaUsageReports`
const QUOTA_RESPONSE = `${QUOTA}.RateLimitQuotaResponse`
const BUCKET_ACTION = `${QUOTA_RESPONSE}.BucketAction`

const RATE_LIMIT_QUOTA: ProtoFile = {
  name: 'envoy/service/rate_limit_quota/v3/rlqs.proto',
  package: 'envoy.service.rate_limit_quota.v3',
  imports: [STRATEGY, DURATION],
  messages: {
    RateLimitQuotaUsageReports: {
      fields: {
        domain: field(1, 'string'),
        bucket_quota_usages: repeated(2, `${USAGE_REPORTS}.BucketQuotaUsage`),
      },
      messages: {
        BucketQuotaUsage: {
          fields: {
            bucket_id: field(1, `${QUOTA}.BucketId`),
            time_elapsed: field(2, '.google.protobuf.Duration'),
            num_requests_allowed: field(3, 'uint64'),
            num_requests_denied: field(4, 'uint64'),
          },
        },
      },
    },
    RateLimitQuotaResponse: {
      fields: { bucket_action: repeated(1, BUCKET_ACTION) },
      messages: {
        BucketAction: {
          fields: {
            bucket_id: field(1, `${QUOTA}.BucketId`),
            quota_assignment_action: field(2, `${BUCKET_ACTION}.QuotaAssignmentAction`, {
              oneof: 'bucket_action',
            }),
            abandon_action: field(3, `${BUCKET_ACTION}.AbandonAction`, { oneof: 'bucket_action' }),
          },
          messages: {
            QuotaAssignmentAction: {
              fields: {
                assignment_time_to_live: field(2, '.google.protobuf.Duration'),
                rate_limit_strategy: field(3, '.envoy.type.v3.RateLimitStrategy'),
              },
            },
            AbandonAction: {},
          },
        },
      },
    },
    BucketId: {
      fields: { bucket: repeated(1, `${QUOTA}.BucketId.BucketEntry`) },
      messages: {
        BucketEntry: {
          fields: { key: field(1, 'string'), value: field(2, 'string') },
          isMapEntry: true,
        },
      },
    },
  },
  services: {
    RateLimitQuotaService: {
      StreamRateLimitQuotas: { input: USAGE_REPORTS, output: QUOTA_RESPONSE, streams: 'both' },
    },
  },
}

const HEALTH_RESPONSE = '.grpc.health.v1.HealthCheckResponse'
const HEALTH_REQUEST = '.grpc.health.v1.HealthCheckRequest'

const HEALTH: ProtoFile = {
  name: 'grpc/health/v1/health.proto',
  package: 'grpc.health.v1',
  messages: {
    HealthCheckRequest: { fields: { service: field(1, 'string') } },
    HealthCheckResponse: {
      fields: { status: field(1, `enum ${HEALTH_RESPONSE}.ServingStatus`) },
      enums: { ServingStatus: { UNKNOWN: 0, SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 } },
    },
  },
  services: {
    Health: {
      Check: { input: HEALTH_REQUEST, output: HEALTH_RESPONSE },
      Watch: { input: HEALTH_REQUEST, output: HEALTH_RESPONSE, streams: 'server' },
    },
  },
}

export const PROTO_FILES: readonly ProtoFile[] = [
  ...GOOGLE,
  ...ENVOY_TYPES,
  RATE_LIMIT,
  RATE_LIMIT_QUOTA,
  HEALTH,
]
