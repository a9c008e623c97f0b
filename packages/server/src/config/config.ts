/** The configuration of a server: one file, overridden by the environment, over defaults. */
import type { AlgorithmName, Cidr, PathPattern, PostureName } from '@sluice/core'
import type { AlertName } from '../observability/alerts/alert-kinds.js'

export interface ListenAddress {
  /** An address or a name: `127.0.0.1`, `::1`, `0.0.0.0`, `localhost`. */
  readonly host: string
  /** 0: any free port. */
  readonly port: number
}

/** Files that are reloaded when they change. */
export interface TlsFiles {
  readonly cert: string
  readonly key: string
}

/** Files of a listener whose clients may need certificates. */
export interface ServerTlsFiles extends TlsFiles {
  /** The authorities of client certificates; undefined: clients need none. */
  readonly clientCa?: string | undefined
}

export interface Upstream {
  /** A canonical path without a trailing slash; `/` for everything. The longest prefix wins. */
  readonly prefix: string
  /** `http://host:port` or `https://host:port`, without a path. */
  readonly origin: string
  /** Whether the upstream receives the client's `Host` or its own. */
  readonly host: 'preserve' | 'upstream'
  /** The maximum number of connections for calls. */
  readonly connections: number
  /** The maximum number of WebSockets, each on a connection of its own. */
  readonly websockets: number
  /** Undefined: its answers are not read. */
  readonly usage: UsageConfig | undefined
}

/** The API of a language model whose calls are charged what they use. */
export interface UsageConfig {
  /** The shape of its requests and answers. */
  readonly dialect: 'openai' | 'anthropic'
  /** Tokens of output that are reserved for a call that asks for no maximum. */
  readonly defaultOutput: number
  /** By model, or the beginning of its name and `*`. Empty: calls have no `spend`. */
  readonly prices: ReadonlyMap<string, TokenPrices>
  /** Whether a stream ends when the budget of its caller is used up. */
  readonly onExhausted: 'continue' | 'stop'
}

/** Money for a million tokens; the same number is millionths of it for one token. */
export interface TokenPrices {
  readonly input: number
  readonly output: number
  /** For input that is read from a cache. */
  readonly cached: number
}

export interface CorsConfig {
  /** As browsers send them in `Origin`; `*`: every page. */
  readonly origins: ReadonlySet<string> | '*'
  /** Whether pages may read responses to requests with cookies or other credentials. */
  readonly credentials: boolean
}

export interface GatewayConfig {
  readonly listen: ListenAddress
  readonly tls: TlsFiles | undefined
  /** Empty: the built-in echo server. */
  readonly upstreams: readonly Upstream[]
  /** Whether responses carry rate limit headers. */
  readonly headers: boolean
  /** Which pages may read the gateway's own responses. Undefined: none of another origin. */
  readonly cors: CorsConfig | undefined
  /** Calls to these paths need a user, otherwise they get 401. Empty: no path does. */
  readonly requireUser: readonly PathPattern[]
  /** Maximum connections of clients, for each listener; so is the next bound. */
  readonly maxConnections: number
  /** Maximum connections of one address that is neither a trusted proxy nor loopback. */
  readonly maxConnectionsPerAddress: number
  /** Maximum calls in flight of one such address at the gateway. */
  readonly maxCallsPerAddress: number
  /** Maximum calls held by a leaky bucket or `wait`; beyond it a delayed call is refused. */
  readonly maxHeld: number
  readonly timeouts: {
    /** The time limit for the head of a request, and between two requests. */
    readonly headersMs: number
    /** The time limit for a whole request. */
    readonly requestMs: number
    readonly connectMs: number
    /** The time limit for getting a connection to the upstream, including opening it. */
    readonly queueMs: number
    /** The time limit from the end of a request until the upstream begins to respond. */
    readonly responseMs: number
    /**
     * The time limit between two chunks of a body, in either direction, and for a client that reads
     * none of its responses.
     */
    readonly stallMs: number
    /** How long a WebSocket may be idle in both directions. */
    readonly websocketIdleMs: number
  }
}

export interface ApiConfig {
  readonly listen: ListenAddress
  readonly tls: TlsFiles | undefined
  /** Undefined: only loopback may connect. */
  readonly token: string | undefined
  /** The status with which forward-auth refuses a call. */
  readonly refusedStatus: 429 | 403
}

/** The rate limit service for Envoy, over gRPC. */
export interface EnvoyServiceConfig {
  readonly listen: ListenAddress
  /** Undefined: clear text. */
  readonly tls: ServerTlsFiles | undefined
  /** Whether clients of other machines may connect without a certificate. */
  readonly insecure: boolean
  /** The directory with the configuration of envoyproxy/ratelimit; undefined: none. */
  readonly config: string | undefined
  /** The control plane that sends it in place of a directory; without either, rules decide. */
  readonly xds: XdsConfig | undefined
  /** How long a decision waits for the store. */
  readonly deadlineMs: number
  readonly server: 'grpc-js' | 'own'
  /** Whether tools may ask for the services and messages of the server. */
  readonly reflection: boolean
  /** Whether no request is refused; statuses still say what would have been. */
  readonly shadow: boolean
  /** Whether all descriptors are alternatives, as if each had `quota_mode`. */
  readonly quota: boolean
  /** What answers carry, besides their statuses. */
  readonly headers: EnvoyHeaders | ReferenceHeaders
  /** Whether answers carry the request and the metadata of its limits. */
  readonly metadata: boolean
  /** Whether several files or resources may have one domain. */
  readonly mergeDomains: boolean
  /** By name. */
  readonly domains: ReadonlyMap<string, EnvoyDomain>
  /** For domains that are not listed. */
  readonly defaults: EnvoyDomain
  /** The share of a limit above which metrics call it near. */
  readonly nearLimitRatio: number
  /** A connection is closed after this time, give or take a tenth. */
  readonly maxAgeMs: number
}

/** A control plane that sends the configuration of envoyproxy/ratelimit, as Envoy Gateway does. */
export interface XdsConfig {
  readonly server: ListenAddress
  /** By which the control plane chooses what it sends. */
  readonly nodeId: string
  readonly nodeMetadata: ReadonlyMap<string, string>
  /** Sent with the stream. They may be secret. */
  readonly headers: ReadonlyMap<string, string>
  /** Undefined: clear text. */
  readonly tls: ClientTlsFiles | undefined
  /** A larger response ends the stream. */
  readonly maxMessageBytes: number
  /** The first and the longest pause before another stream. */
  readonly backoff: { readonly firstMs: number; readonly mostMs: number }
}

/**
 * `all`: `RateLimit`, `RateLimit-Policy` and `X-RateLimit-*`. `standard`: only the first two.
 * `refusals`: none but those of a refusal. `none`: none at all, and no body of a refusal either.
 */
export type EnvoyHeaders = 'all' | 'standard' | 'refusals' | 'none'

/** The names of the three headers of envoyproxy/ratelimit. */
export interface ReferenceHeaders {
  readonly limit: string
  readonly remaining: string
  readonly reset: string
}

export interface EnvoyDomain {
  /** How it counts: as Sluice does, or to the unit as envoyproxy/ratelimit does. */
  readonly counting: 'sluice' | 'reference'
  /** Whether a descriptor that no limit matches is refused. */
  readonly requireMatch: boolean
  /** The algorithm of the limits of its configuration; undefined: a fixed window. */
  readonly algorithm: AlgorithmName | undefined
  /** What its limits do when the store does not answer; undefined: the default of rules. */
  readonly posture: PostureName | undefined
}

export interface AdminConfig {
  readonly listen: ListenAddress
  /** Undefined: the token is stored in the data directory. */
  readonly token: string | undefined
}

/** PEM files for a connection to Redis, Postgres or a control plane. */
export interface ClientTlsFiles {
  /** The only authorities to trust; undefined: those of the system. */
  readonly ca: string | undefined
  /** The client certificate and key of this node, both or neither. */
  readonly cert: string | undefined
  readonly key: string | undefined
  /** The name in the server's certificate; undefined: the host of the URL. */
  readonly servername: string | undefined
}

export interface RedisConfig {
  /** Contains the password; logs use `describeRedisUrl`. */
  readonly url: string
  /** How long a decision waits for Redis. */
  readonly deadlineMs: number
  /** The prefix of all keys. */
  readonly prefix: string
  readonly layout: 'plain' | 'packed'
  readonly client: 'ioredis' | 'iovalkey' | 'node-redis'
  /** How long a refusal is kept in the deny cache; 0: not at all. */
  readonly denyCacheMs: number
  /**
   * How uncertain the time of Redis may be on this node before a unit that is near the edge of a
   * window counts before it.
   */
  readonly clockToleranceMs: number
  /** The assumed number of nodes until Redis has reported it. */
  readonly fleetSize: number
  readonly allowEviction: boolean
  readonly tls: ClientTlsFiles | undefined
}

/** The Redis of another region, to which this node reports what callers spent here. */
export interface RegionLinkConfig {
  readonly name: string
  /** Contains the password. */
  readonly url: string
  readonly tls: ClientTlsFiles | undefined
}

/** The regions that share limits. */
export interface RegionsConfig {
  /** The region of this node. */
  readonly own: string
  /** How often regions learn of each other: a node reports twice in it. */
  readonly syncEveryMs: number
  /** All regions but the own one, by name. */
  readonly others: readonly RegionLinkConfig[]
}

export interface DatabaseConfig {
  /** Contains the password; logs use `describeDatabase`. */
  readonly url: string
  /** Includes the files that the URL names. The URL decides whether TLS is used at all. */
  readonly tls: ClientTlsFiles | undefined
}

export interface KnownKey {
  /** SHA-256 of the key, 64 hex digits. */
  readonly sha256: string
  readonly user: string | undefined
  readonly plan: string | undefined
  readonly state: 'active' | 'disabled'
}

export type JwtAlgorithm =
  | 'HS256'
  | 'HS384'
  | 'HS512'
  | 'RS256'
  | 'RS384'
  | 'RS512'
  | 'PS256'
  | 'PS384'
  | 'PS512'
  | 'ES256'
  | 'ES384'
  | 'ES512'
  | 'EdDSA'

/** A key with a fixed algorithm, which the token cannot choose. */
export interface JwtKeyFile {
  /** Undefined: for tokens that name no key, if it is the only one. */
  readonly kid: string | undefined
  readonly algorithm: JwtAlgorithm
  /** PEM (public key or certificate), a JWK as JSON, or for HS the secret itself. */
  readonly file: string
}

export interface JwtConfig {
  /** The header that carries `Bearer <token>`. */
  readonly header: string
  readonly keys: readonly JwtKeyFile[]
  /** The URL that keys are fetched from, at most every 10 s. */
  readonly jwks: { readonly url: string; readonly algorithms: readonly JwtAlgorithm[] } | undefined
  readonly issuer: string | undefined
  readonly audience: string | undefined
  /** The claims with the user and the plan. */
  readonly userClaim: string
  readonly planClaim: string
}

export interface HeaderAttribute {
  readonly attribute: string
  /** In lower case. */
  readonly header: string
  /** Whether its values may be shown; otherwise they are masked when a call arrives. */
  readonly open: boolean
}

export interface IdentityConfig {
  /** How many bits of an IPv6 address identify a caller: 32 to 64. */
  readonly ipv6Prefix: number
  readonly apiKey: {
    /** In lower case. */
    readonly header: string
    /** How a call with an unknown key is treated: as one without a key, or with 401. */
    readonly unknown: 'anonymous' | 'refuse'
  }
  readonly keys: readonly KnownKey[]
  readonly jwt: JwtConfig | undefined
  /** Headers that a trusted proxy sets; from all other peers they are dropped. */
  readonly proxyHeaders: {
    readonly user: string | undefined
    readonly plan: string | undefined
    readonly priority: string | undefined
  }
  /** Other attributes, each from one header. */
  readonly headers: readonly HeaderAttribute[]
}

export interface AlertsConfig {
  /** The URL that alerts are posted to; undefined: they are only logged. */
  readonly webhook:
    | {
        readonly url: string
        /** Signs each body; undefined: bodies are not signed. */
        readonly secret: string | undefined
      }
    | undefined
  /** The prefix of links to sections of the runbook. */
  readonly runbook: string
  /** How long a caller may be exhausted before an alert. */
  readonly callerExhaustedMs: number
  /** How long the active rules may be unconfirmed before an alert. */
  readonly rulesStaleMs: number
  /** The time over which the baseline is learnt. */
  readonly baselineMs: number
  /** The alerts that are turned off. */
  readonly off: readonly AlertName[]
}

export interface DecisionLogConfig {
  readonly file: string
  /** The share of callers whose decisions are all logged: above 0, up to 1. */
  readonly sample: number
  /** A larger file is rotated. */
  readonly maxBytes: number
  /** How many rotated files are kept. */
  readonly keep: number
}

/** Which versions the embedded rule store keeps, in addition to the current rules. */
interface RulesHistoryConfig {
  /** How many of the newest versions are kept. */
  readonly versions: number
  /** The maximum age of a version, except for the newest hundred; undefined: any age. */
  readonly ageMs: number | undefined
}

/** Where the list of the members of a ring is. */
export type RingPeers =
  | { readonly kind: 'dns'; readonly host: string; readonly port: number }
  | { readonly kind: 'srv'; readonly name: string }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'list'; readonly addresses: readonly ListenAddress[] }

/** Nodes that hold the counters in memory, each a part. */
export interface RingConfig {
  readonly listen: ListenAddress
  /** As the list names this node. */
  readonly advertise: ListenAddress
  readonly peers: RingPeers
  /** How long a decision waits for another node. */
  readonly deadlineMs: number
  /** Undefined only where all members are on this machine. */
  readonly tls: { readonly ca: string; readonly cert: string; readonly key: string } | undefined
}

export interface Config {
  /** The file that was read; undefined: none. */
  readonly file: string | undefined
  /** A rules file of the user; undefined: rules are in the rule store. */
  readonly rules: string | undefined
  /** Whether a node that starts without rules is ready nevertheless, and admits every call. */
  readonly allowNoRules: boolean
  readonly dataDir: string
  readonly workers: number
  readonly trustedProxies: readonly Cidr[]
  /** The header that trusted proxies write. */
  readonly forwardedHeader: 'x-forwarded-for' | 'forwarded'
  /** 16 bytes; undefined: stored in Redis, or otherwise in the data directory. */
  readonly keySecret: Uint8Array | undefined
  /** Undefined: counters live in memory. */
  readonly redis: RedisConfig | undefined
  /** Undefined: no other node holds counters of this one. */
  readonly ring: RingConfig | undefined
  /** Undefined: there is only one region. */
  readonly regions: RegionsConfig | undefined
  /** Undefined: the rule store is files in the data directory. */
  readonly database: DatabaseConfig | undefined
  readonly rulesHistory: RulesHistoryConfig
  /** The maximum number of counters in the memory store. */
  readonly maxCounters: number
  readonly gateway: GatewayConfig
  readonly api: ApiConfig
  readonly envoy: EnvoyServiceConfig
  readonly admin: AdminConfig
  readonly identity: IdentityConfig
  readonly refusals: {
    /** The status of a refusal by posture. */
    readonly postureStatus: 429 | 503
    /** The status of a shed call, except for forward-auth, which never sends a 5xx. */
    readonly shedStatus: 429 | 503
    readonly jitter: boolean
  }
  readonly log: {
    readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent'
    /**
     * Whether refusals name callers by hash or in clear text; secret attributes are never in clear
     * text.
     */
    readonly callers: 'hash' | 'clear'
  }
  readonly alerts: AlertsConfig
  /** Undefined: there is no decision log. */
  readonly decisionLog: DecisionLogConfig | undefined
  /** Whether spans and metrics go to OpenTelemetry, if its API is installed. */
  readonly telemetry: boolean
  readonly shutdown: {
    /** How long calls are still accepted after readiness has ended. */
    readonly delayMs: number
    /** The time after which the process ends at the latest. */
    readonly withinMs: number
  }
}
