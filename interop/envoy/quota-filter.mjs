/** The configuration of Envoy's filter for quotas, with a bucket for each value of a header. */
const API = 'type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3'
const MATCHER = 'type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput'

const header = (name) => ({
  name: `header-${name}`,
  typed_config: { '@type': MATCHER, header_name: name },
})

/** Calls with a header `user` have the bucket `{ name: static, user: … }`, others have none. */
export function quotaFilter({ cluster, domain, withoutAssignment, expired }) {
  const bucketSettings = {
    '@type': `${API}.RateLimitQuotaBucketSettings`,
    bucket_id_builder: {
      bucket_id_builder: {
        name: { string_value: 'static' },
        user: { custom_value: header('user') },
      },
    },
    reporting_interval: '5s',
    no_assignment_behavior: { fallback_rate_limit: { blanket_rule: withoutAssignment } },
    expired_assignment_behavior: {
      expired_assignment_behavior_timeout: '600s',
      fallback_rate_limit: { blanket_rule: expired },
    },
    deny_response_settings: { http_status: { code: 'TooManyRequests' } },
  }
  return {
    name: 'envoy.filters.http.rate_limit_quota',
    typed_config: {
      '@type': `${API}.RateLimitQuotaFilterConfig`,
      domain,
      rlqs_server: { envoy_grpc: { cluster_name: cluster } },
      bucket_matchers: {
        matcher_list: {
          matchers: [
            {
              predicate: {
                single_predicate: {
                  input: header('user'),
                  value_match: { safe_regex: { google_re2: {}, regex: '.+' } },
                },
              },
              on_match: { action: { name: 'quota', typed_config: bucketSettings } },
            },
          ],
        },
      },
    },
  }
}
