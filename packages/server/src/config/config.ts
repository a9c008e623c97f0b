/** What a server is told when it starts: one file, the environment over it, defaults below. */
import type { Cidr, PathPattern } from '@sluice/core'
import type { AlertName } from '../observability/alerts/alert-kinds.js'

export interface ListenAddress {
  /** An address or a name: `127.0.0.1`, `::1`, `0.0.0.0`, `localhost`. */
  readonly host: string
  /** 0: any free port. */
  readonly port: number
}

/** Files that are read again when they change. */
export interface TlsFiles {
  readonly cert: string
  readonly key: string
}

export interface Upstream {
  /** A canonical path without a trailing slash; `/` for everything. The longest prefix wins. */
  readonly prefix: string
  /** `http://host:port` or `https://host:port`, without a path. */
  readonly origin: string
  /** Whether the upstream sees the client's `Host` or its own. */
  readonly host: 'preserve' | 'upstream'
  /** At most so many connections for calls. */
  readonly connections: number
  /** At most so many WebSockets, each on a connection of its own. */
  readonly websockets: number
}

export interface GatewayConfig {
  readonly listen: ListenAddress
  readonly tls: TlsFiles | undefined
  /** Empty: the built-in echo. */
  readonly upstreams: readonly Upstream[]
  /** Whether responses carry rate limit headers. */
  readonly headers: boolean
  /** Calls to these paths need a user, else 401. Empty: none does. */
  readonly requireUser: readonly PathPattern[]
  /** Connections of clients; like the next one for each listener, the others included. */
  readonly maxConnections: number
  /** Connections of one address that is neither a trusted proxy nor the loopback. */
  readonly maxConnectionsPerAddress: number
  /** Calls that one such address has in flight at the gateway. */
  readonly maxCallsPerAddress: number
  /** Calls held by a leaky bucket or `wait` at one time; beyond it a delay is a refusal. */
  readonly maxHeld: number
  readonly timeouts: {
    /** Until the head of a request is there, and between two requests. */
    readonly headersMs: number
    /** Until a request is there whole. */
    readonly requestMs: number
    readonly connectMs: number
    /** Until a call has a connection to the upstream, the making of it included. */
    readonly queueMs: number
    /** From the end of a request until the upstream begins to answer. */
    readonly responseMs: number
    /** Between two pieces of a body, either way, and while a client reads none of its answers. */
    readonly stallMs: number
    /** How long a WebSocket may carry nothing either way. */
    readonly websocketIdleMs: number
  }
}

export interface ApiConfig {
  readonly listen: ListenAddress
  readonly tls: TlsFiles | undefined
  /** Undefined: loopback only. */
  readonly token: string | undefined
  /** What forward-auth answers to a refused call. */
  readonly refusedStatus: 429 | 403
}

export interface AdminConfig {
  readonly listen: ListenAddress
  /** Undefined: kept in the data directory. */
  readonly token: string | undefined
}

/** PEM files for a connection to Redis or Postgres, read at the start. */
export interface ClientTlsFiles {
  /** Whom to believe beside nobody else; undefined: whom the system believes. */
  readonly ca: string | undefined
  /** What this node shows of itself, both or neither. */
  readonly cert: string | undefined
  readonly key: string | undefined
  /** The name in the other side's certificate; undefined: the host of the URL. */
  readonly servername: string | undefined
}

export interface RedisConfig {
  /** With its password; `describeRedisUrl` is for people. */
  readonly url: string
  /** How long a decision waits for Redis. */
  readonly deadlineMs: number
  /** What all keys begin with. */
  readonly prefix: string
  readonly layout: 'plain' | 'packed'
  readonly client: 'ioredis' | 'iovalkey' | 'node-redis'
  /** How long a refusal is remembered here; 0: not at all. */
  readonly denyCacheMs: number
  /** How far off Redis's time may be here before what is near an edge counts before it. */
  readonly clockToleranceMs: number
  /** How many nodes there are until Redis has told. */
  readonly fleetSize: number
  readonly allowEviction: boolean
  readonly tls: ClientTlsFiles | undefined
}

export interface DatabaseConfig {
  /** With its password; `describeDatabase` is for people. */
  readonly url: string
  /** Those of the URL too. Whether there is TLS at all the URL says. */
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

/** A key whose algorithm is fixed here, never by the token. */
export interface JwtKeyFile {
  /** Undefined: for tokens that name no key, where it is the only one. */
  readonly kid: string | undefined
  readonly algorithm: JwtAlgorithm
  /** PEM (public key or certificate), a JWK as JSON, or for HS the secret itself. */
  readonly file: string
}

export interface JwtConfig {
  /** The header that carries `Bearer <token>`. */
  readonly header: string
  readonly keys: readonly JwtKeyFile[]
  /** Keys fetched from here, at most every 10 s. */
  readonly jwks: { readonly url: string; readonly algorithms: readonly JwtAlgorithm[] } | undefined
  readonly issuer: string | undefined
  readonly audience: string | undefined
  /** The claims that are the user and the plan. */
  readonly userClaim: string
  readonly planClaim: string
}

export interface HeaderAttribute {
  readonly attribute: string
  /** Lower case. */
  readonly header: string
  /** Whether its values may be shown; else they become a hash at the door. */
  readonly open: boolean
}

export interface IdentityConfig {
  /** How many bits of an IPv6 address make a caller: 32 to 64. */
  readonly ipv6Prefix: number
  readonly apiKey: {
    /** Lower case. */
    readonly header: string
    /** What a call with an unknown key is: one without a key, or 401. */
    readonly unknown: 'anonymous' | 'refuse'
  }
  readonly keys: readonly KnownKey[]
  readonly jwt: JwtConfig | undefined
  /** Headers that a trusted proxy sets; from anybody else they are dropped. */
  readonly proxyHeaders: { readonly user: string | undefined; readonly plan: string | undefined }
  /** Other attributes, each from one header. */
  readonly headers: readonly HeaderAttribute[]
}

export interface AlertsConfig {
  /** Where alerts are posted to; undefined: only to the log. */
  readonly webhook:
    | {
        readonly url: string
        /** Signs each body; undefined: it is not signed. */
        readonly secret: string | undefined
      }
    | undefined
  /** What the links to sections of the runbook begin with. */
  readonly runbook: string
  /** How long a caller may be at zero. */
  readonly callerExhaustedMs: number
  /** How long the rules in force may be unconfirmed. */
  readonly rulesStaleMs: number
  /** Over how long what is usual is learnt. */
  readonly baselineMs: number
  /** Those that are not wanted. */
  readonly off: readonly AlertName[]
}

export interface DecisionLogConfig {
  readonly file: string
  /** The share of callers of which every decision is written: above 0, up to 1. */
  readonly sample: number
  /** A file that is larger is put aside and a new one begun. */
  readonly maxBytes: number
  /** How many that were put aside are kept. */
  readonly keep: number
}

/** Which versions the embedded rule store keeps, beside the rules as they are. */
interface RulesHistoryConfig {
  /** The newest so many. */
  readonly versions: number
  /** None that is older, but the newest hundred all the same; undefined: of any age. */
  readonly ageMs: number | undefined
}

export interface Config {
  /** The file it was read from; undefined: none. */
  readonly file: string | undefined
  /** A rules file of the user's own; undefined: rules are in the rule store. */
  readonly rules: string | undefined
  /** Whether a node that starts without any rule is ready all the same, and admits every call. */
  readonly allowNoRules: boolean
  readonly dataDir: string
  readonly workers: number
  readonly trustedProxies: readonly Cidr[]
  /** Which header trusted proxies write. */
  readonly forwardedHeader: 'x-forwarded-for' | 'forwarded'
  /** 16 bytes; undefined: kept in Redis, or else in the data directory. */
  readonly keySecret: Uint8Array | undefined
  /** Undefined: counters live in memory. */
  readonly redis: RedisConfig | undefined
  /** Undefined: the rule store is files in the data directory. */
  readonly database: DatabaseConfig | undefined
  readonly rulesHistory: RulesHistoryConfig
  /** Counters that the memory store holds. */
  readonly maxCounters: number
  readonly gateway: GatewayConfig
  readonly api: ApiConfig
  readonly admin: AdminConfig
  readonly identity: IdentityConfig
  readonly refusals: {
    /** The status of a refusal by posture. */
    readonly postureStatus: 429 | 503
    readonly jitter: boolean
  }
  readonly log: {
    readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent'
    /** Whether refusals name callers by hash or in clear; secret attributes are never clear. */
    readonly callers: 'hash' | 'clear'
  }
  readonly alerts: AlertsConfig
  /** Undefined: none is written. */
  readonly decisionLog: DecisionLogConfig | undefined
  /** Whether spans and metrics go to OpenTelemetry, where its API is installed. */
  readonly telemetry: boolean
  readonly shutdown: {
    /** How long calls are still taken after readiness is gone. */
    readonly delayMs: number
    /** When the process ends at the latest. */
    readonly withinMs: number
  }
}
