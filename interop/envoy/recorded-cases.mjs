/**
 * The kinds of descriptors that Envoy can send: the configuration of a route, the request that it
 * gets, and how many calls Envoy is expected to make for it.
 *
 * `isPerRoute` puts the configuration into `RateLimitPerRoute`, as Envoy Gateway does; otherwise it
 * is in the route, where Envoy accepts neither `hits_addend` nor `apply_on_stream_done`.
 */
export const SERVICE_METADATA = 'interop.limits'

const generic = (value) => ({ generic_key: { descriptor_value: value } })
const apiKey = { request_headers: { header_name: 'x-api-key', descriptor_key: 'api_key' } }

export const CASES = [
  {
    name: 'remote-address',
    rateLimits: [{ actions: [{ remote_address: {} }] }],
    calls: 1,
  },
  {
    name: 'several-entries',
    rateLimits: [{ actions: [generic('login'), apiKey] }],
    headers: { 'x-api-key': 'k-1' },
    calls: 1,
  },
  {
    name: 'two-descriptors',
    rateLimits: [{ actions: [{ remote_address: {} }] }, { actions: [apiKey] }],
    headers: { 'x-api-key': 'k-1' },
    calls: 1,
  },
  {
    name: 'one-descriptor-without-its-header',
    rateLimits: [{ actions: [{ remote_address: {} }] }, { actions: [apiKey] }],
    calls: 1,
  },
  {
    name: 'no-descriptor',
    rateLimits: [{ actions: [apiKey] }],
    calls: 0,
  },
  {
    name: 'empty-header',
    rateLimits: [{ actions: [apiKey] }],
    headers: { 'x-api-key': '' },
    calls: 1,
  },
  {
    name: 'other-actions',
    rateLimits: [
      {
        actions: [
          { source_cluster: {} },
          { destination_cluster: {} },
          { masked_remote_address: { v4_prefix_mask_len: 24 } },
          {
            header_value_match: {
              descriptor_value: 'get',
              headers: [{ name: ':method', string_match: { exact: 'GET' } }],
            },
          },
        ],
      },
    ],
    calls: 1,
  },
  {
    name: 'per-route-without-hits',
    isPerRoute: true,
    rateLimits: [{ actions: [generic('plain')] }],
    calls: 1,
  },
  {
    name: 'hits-zero',
    isPerRoute: true,
    rateLimits: [{ actions: [generic('gate')], hits_addend: { number: 0 } }],
    calls: 1,
  },
  {
    name: 'hits-five',
    isPerRoute: true,
    rateLimits: [{ actions: [generic('five')], hits_addend: { number: 5 } }],
    calls: 1,
  },
  {
    name: 'hits-of-a-header',
    isPerRoute: true,
    rateLimits: [{ actions: [generic('cost')], hits_addend: { format: '%REQ(x-cost)%' } }],
    headers: { 'x-cost': '7' },
    calls: 1,
  },
  {
    name: 'hits-of-a-header-that-is-absent',
    isPerRoute: true,
    rateLimits: [
      { actions: [generic('plain')] },
      { actions: [generic('cost')], hits_addend: { format: '%REQ(x-cost)%' } },
    ],
    calls: 1,
  },
  {
    name: 'negative-hits',
    isPerRoute: true,
    rateLimits: [
      { actions: [generic('refund')], hits_addend: { number: 5, is_negative_hits: true } },
    ],
    calls: 1,
  },
  {
    name: 'metered',
    isPerRoute: true,
    rateLimits: [
      { actions: [generic('tokens')], hits_addend: { number: 0 } },
      {
        actions: [generic('tokens')],
        hits_addend: { format: '%RESP(x-tokens)%' },
        apply_on_stream_done: true,
      },
    ],
    calls: 2,
  },
  {
    name: 'metered-with-an-ordinary-descriptor',
    isPerRoute: true,
    rateLimits: [
      { actions: [{ remote_address: {} }] },
      { actions: [generic('tokens')], hits_addend: { number: 0 } },
      {
        actions: [generic('tokens')],
        hits_addend: { format: '%RESP(x-tokens)%' },
        apply_on_stream_done: true,
      },
    ],
    calls: 2,
  },
  {
    name: 'refund-at-stream-end',
    isPerRoute: true,
    rateLimits: [
      { actions: [generic('tokens')], hits_addend: { number: 200 } },
      {
        actions: [generic('tokens')],
        hits_addend: { format: '%RESP(x-tokens)%', is_negative_hits: true },
        apply_on_stream_done: true,
      },
    ],
    calls: 2,
  },
  {
    name: 'stream-end-without-hits',
    isPerRoute: true,
    rateLimits: [{ actions: [generic('after')], apply_on_stream_done: true }],
    calls: 1,
  },
  {
    name: 'metered-and-refused',
    says: 'the service refuses the first call, so nothing has the header of the upstream',
    isPerRoute: true,
    isRefused: true,
    rateLimits: [
      { actions: [generic('tokens')], hits_addend: { number: 0 } },
      {
        actions: [generic('tokens')],
        hits_addend: { format: '%RESP(x-tokens)%' },
        apply_on_stream_done: true,
      },
    ],
    calls: 1,
  },
  {
    name: 'counted-at-stream-end-and-refused',
    says: 'the service refuses the first call',
    isPerRoute: true,
    isRefused: true,
    rateLimits: [
      { actions: [generic('sent')], hits_addend: { number: 0 } },
      {
        actions: [generic('sent')],
        hits_addend: { format: '%BYTES_SENT%' },
        apply_on_stream_done: true,
      },
    ],
    calls: 2,
  },
  {
    name: 'every-request-at-stream-end-and-refused',
    says: 'the service refuses the first call',
    isPerRoute: true,
    isRefused: true,
    rateLimits: [
      { actions: [generic('sent')], hits_addend: { number: 0 } },
      { actions: [generic('sent')], hits_addend: { number: 1 }, apply_on_stream_done: true },
    ],
    calls: 2,
  },
  {
    name: 'metered-and-abandoned',
    says: 'the client goes before the upstream has answered',
    isPerRoute: true,
    path: '/slow',
    rateLimits: [
      { actions: [generic('bytes')], hits_addend: { number: 0 } },
      {
        actions: [generic('bytes')],
        hits_addend: { format: '%BYTES_RECEIVED%' },
        apply_on_stream_done: true,
      },
    ],
    calls: 2,
  },
  {
    name: 'hits-of-the-request',
    says: 'the filter state envoy.ratelimit.hits_addend is 3',
    requestHits: '3',
    rateLimits: [{ actions: [{ remote_address: {} }] }],
    calls: 1,
  },
  {
    name: 'limit-override',
    rateLimits: [
      {
        actions: [generic('override')],
        limit: { dynamic_metadata: { metadata_key: metadataKey('limit') } },
      },
    ],
    calls: 1,
  },
  {
    name: 'limit-override-with-hits',
    isPerRoute: true,
    rateLimits: [
      {
        actions: [generic('override')],
        limit: { dynamic_metadata: { metadata_key: metadataKey('limit') } },
        hits_addend: { number: 0 },
      },
    ],
    calls: 1,
  },
]

function metadataKey(name) {
  return { key: SERVICE_METADATA, path: [{ key: name }] }
}
