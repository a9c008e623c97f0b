/** The bootstrap of Envoy, as an object: its form of YAML includes JSON. */
import { SERVICE_METADATA } from './recorded-cases.mjs'

const API = 'type.googleapis.com/envoy.extensions'
const FILTER_STATE = 'envoy.filters.http.set_filter_state'
const RATE_LIMIT = 'envoy.filters.http.ratelimit'

/** Envoy's own default. */
const TIMEOUT = '0.020s'

/**
 * A listener for each `{ name, domain, routes, failureModeDeny, cluster }`, or for one with its own
 * filters, `{ name, routes, filters }`, and a cluster for each rate limit service
 * `{ name, port, http2, tls }`; `tls`, in PEM: the authority `ca` of the service, and the client's
 * own `cert` and `key`, if it has any.
 */
export function bootstrap({ listeners, services, upstreamPort }) {
  return {
    node: { id: 'interop', cluster: 'interop-edge' },
    admin: { address: address(0) },
    static_resources: {
      listeners: listeners.map(listener),
      clusters: [
        cluster('app', upstreamPort),
        ...services.map(({ name, port, http2, tls }) => ({
          ...cluster(name, port),
          ...(tls && { transport_socket: transportSocket(tls) }),
          typed_extension_protocol_options: {
            'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
              '@type': `${API}.upstreams.http.v3.HttpProtocolOptions`,
              explicit_http_config: { http2_protocol_options: http2 ?? {} },
            },
          },
        })),
      ],
    },
  }
}

function listener({ filters, ...options }) {
  const { name, routes } = options
  const router = {
    name: 'envoy.filters.http.router',
    typed_config: { '@type': `${API}.filters.http.router.v3.Router` },
  }
  return {
    name,
    address: address(0),
    filter_chains: [
      {
        filters: [
          {
            name: 'envoy.filters.network.http_connection_manager',
            typed_config: {
              '@type': `${API}.filters.network.http_connection_manager.v3.HttpConnectionManager`,
              stat_prefix: name,
              use_remote_address: true,
              http_filters: [...(filters ?? rateLimitFilters(options)), router],
              route_config: {
                virtual_hosts: [{ name: 'all', domains: ['*'], routes: routes.map(route) }],
              },
            },
          },
        ],
      },
    ],
  }
}

function rateLimitFilters({ cluster: service, domain, failureModeDeny, timeout, withXRateLimit }) {
  return [
    {
      name: 'envoy.filters.http.set_metadata',
      typed_config: {
        '@type': `${API}.filters.http.set_metadata.v3.Config`,
        metadata: [
          {
            metadata_namespace: SERVICE_METADATA,
            value: { limit: { requests_per_unit: 42, unit: 'HOUR' } },
          },
        ],
      },
    },
    { name: FILTER_STATE, typed_config: filterState() },
    {
      name: RATE_LIMIT,
      typed_config: {
        '@type': `${API}.filters.http.ratelimit.v3.RateLimit`,
        domain,
        timeout: timeout ?? TIMEOUT,
        failure_mode_deny: failureModeDeny,
        enable_x_ratelimit_headers: withXRateLimit === false ? 'OFF' : 'DRAFT_VERSION_03',
        enable_retry_after_header: true,
        rate_limit_service: {
          transport_api_version: 'V3',
          grpc_service: { envoy_grpc: { cluster_name: service } },
        },
      },
    },
  ]
}

function route({ name, rateLimits, isPerRoute, requestHits, path }) {
  const perRoute = {
    '@type': `${API}.filters.http.ratelimit.v3.RateLimitPerRoute`,
    rate_limits: rateLimits,
  }
  const perFilter = {
    ...(isPerRoute && { [RATE_LIMIT]: perRoute }),
    ...(requestHits && { [FILTER_STATE]: filterState(requestHits) }),
  }
  return {
    match: { path: `/${name}` },
    route: {
      cluster: 'app',
      ...(path && { prefix_rewrite: path }),
      ...(rateLimits && !isPerRoute && { rate_limits: rateLimits }),
    },
    typed_per_filter_config: perFilter,
  }
}

function filterState(hits) {
  return {
    '@type': `${API}.filters.http.set_filter_state.v3.Config`,
    on_request_headers: hits
      ? [
          {
            object_key: 'envoy.ratelimit.hits_addend',
            format_string: { text_format_source: { inline_string: hits } },
          },
        ]
      : [],
  }
}

function cluster(name, port) {
  return {
    name,
    type: 'STATIC',
    connect_timeout: '1s',
    load_assignment: {
      cluster_name: name,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: address(port) } }] }],
    },
  }
}

function transportSocket({ ca, cert, key }) {
  const inline = (text) => ({ inline_string: text })
  const pair = { certificate_chain: inline(cert), private_key: inline(key) }
  return {
    name: 'envoy.transport_sockets.tls',
    typed_config: {
      '@type': `${API}.transport_sockets.tls.v3.UpstreamTlsContext`,
      sni: 'localhost',
      common_tls_context: {
        alpn_protocols: ['h2'],
        validation_context: { trusted_ca: inline(ca) },
        ...(cert && { tls_certificates: [pair] }),
      },
    },
  }
}

function address(port) {
  return { socket_address: { address: '127.0.0.1', port_value: port } }
}
