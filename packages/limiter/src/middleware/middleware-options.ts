/** The options of every middleware, by the same names in all of them. */
import type { Attributes, Call, Decision, StandardHeaders } from '@sluice/core'
import type { CheckOptions } from '../limiter-types.js'
import type { ActualCosts, Reservation, ReserveOptions } from '../reservation/reservation-types.js'
import type { RulesInput } from '../rule-set.js'
import type { Load } from '../shed/load-shedding.js'
import type { Store } from '../store.js'
import type { WarningCode } from './warning-log.js'

/** A file of rules that is followed while the process runs. */
export interface RulesFile {
  /** The path of the file; a relative one begins at the current directory. */
  readonly file: string
}

/** Anything that decides calls: a `Limiter`, or a client of a Sluice server. */
export interface CallLimiter {
  check(call: Call, options?: CheckOptions): Promise<Decision>
  /** Decides synchronously if nothing has to be waited for; used instead of `check`. */
  decide?(call: Call, options?: CheckOptions): Decision | Promise<Decision>
  /** Gives back the units of held calls whose client leaves. */
  refund?(receipt: string): Promise<void>
  /** Needed by `reserve` and `count`. */
  reserve?(call: Call, options?: ReserveOptions): Promise<RequestReservation>
}

/** A reservation as far as a middleware ends it. */
export type RequestReservation = Decision &
  Pick<Reservation, 'cancel'> & {
    settle(actual: ActualCosts): Promise<unknown>
    /** Whether its places are taken until it ends. @default false */
    holdsPlaces?(): boolean
  }

/** The decision about a request; with `reserve` also the verbs of its reservation. */
export type RequestDecision = Decision & Partial<Pick<Reservation, 'settle' | 'extend' | 'cancel'>>

/** Log lines go here; `console`, pino and winston fit. */
export interface MiddlewareLogger {
  warn(message: string): void
  error(message: string): void
}

/** Where the address of the client is read. */
export type AddressSource = 'socket' | 'cloudflare' | 'vercel' | 'deno' | 'bun'

/** A value, or a promise of it. */
export type Awaitable<Value> = Value | Promise<Value>

interface MiddlewareHeaders {
  /** The `RateLimit` fields of the IETF draft, or those of an older draft. @default true */
  readonly standard?: StandardHeaders | undefined
  /** `X-RateLimit-Limit`, `-Remaining` and `-Reset`. @default true */
  readonly legacy?: boolean | undefined
}

/**
 * `Request` and `Response` are those of the framework. `Answer` is what `onRefused` returns, and
 * `Context` what the runtime passes beside a request.
 */
export interface MiddlewareOptions<Request, Response, Answer = void, Context = unknown> {
  /**
   * A list of rules, a rule set such as `{ priorities, rules }`, YAML text, or `{ file }`, which is
   * followed: a bad edit is logged and the last good rules stay. Either this or `limiter`.
   */
  readonly rules?: RulesInput | RulesFile | undefined
  /** Decides the calls; closing it is up to its owner. Either this or `rules`. */
  readonly limiter?: CallLimiter | undefined
  /** Where the counters of `rules` live. @default the memory of this process */
  readonly store?: Store | undefined
  /**
   * How busy this process is, for `shed` of `rules`; `loopLoad().load` of `@sluice/limiter/node`
   * watches the event loop. @default none: `shed` has no effect
   */
  readonly load?: Load | undefined
  /** Adds attributes to a call, or replaces them: `user`, `plan`, `ip` … */
  readonly attributes?: ((request: Request) => Awaitable<Attributes | undefined>) | undefined
  /** How much a call takes. @default 1 */
  readonly cost?: ((request: Request) => Awaitable<number | undefined>) | undefined
  /**
   * Whether each request is a reservation: its costs are estimates, and the handler settles them
   * with `request.sluice.settle(actual)`. What is not settled stays charged. `ttl` is how long a
   * handler may take for that, 5m unless given. @default false
   */
  readonly reserve?: boolean | { readonly ttl?: ReserveOptions['ttl'] } | undefined
  /** Whether a call is not limited at all. */
  readonly skip?: ((request: Request) => Awaitable<boolean>) | undefined
  /**
   * Which calls are counted once their answer is known: `failed` those with a status of 400 or
   * more, `succeeded` the others, a function those for which it returns true. Units are taken
   * first and given back afterwards. A call without an answer stays counted. @default 'all'
   */
  readonly count?:
    | 'all'
    | 'failed'
    | 'succeeded'
    | ((request: Request, response: Response) => Awaitable<boolean>)
    | undefined
  /**
   * Answers a refused call. The status and the headers of the refusal are in `response` already.
   * @default problem details, as the gateway sends them
   */
  readonly onRefused?:
    | ((request: Request, response: Response, decision: Decision) => Awaitable<Answer>)
    | undefined
  /** Called with every decision, for metrics and logs. What it throws is logged; not waited for. */
  readonly onDecision?: ((decision: Decision, request: Request) => unknown) | undefined
  /** Which rate limit headers are sent. @default those of the gateway: `standard` and `legacy` */
  readonly headers?: MiddlewareHeaders | undefined
  /**
   * Networks of the proxies whose `X-Forwarded-For` is believed, such as `10.0.0.0/8`.
   * @default none
   */
  readonly trustedProxies?: readonly string[] | undefined
  /**
   * Where the client's address is: at the socket, in the header of a platform, or where a function
   * finds it. Never guessed. @default 'socket' on Node servers, none elsewhere
   */
  readonly address?:
    | AddressSource
    | ((request: Request, context: Context) => string | undefined)
    | undefined
  /** Bits of an IPv6 address that identify a caller, 32 to 64; of `rules` only. @default 64 */
  readonly ipv6Prefix?: number | undefined
  /**
   * Whether calls that a leaky bucket or `wait` delays are held until their time, and how many at
   * once. What cannot be held is refused. @default { max: 1000 }
   */
  readonly hold?: boolean | { readonly max: number } | undefined
  /**
   * What happens to a call if the limiter itself fails: `open` lets it pass, `closed` answers 500
   * or 503. A store that does not answer is no such failure: then each rule has its own posture.
   * @default 'closed'
   */
  readonly posture?: 'open' | 'closed' | undefined
  /**
   * The status of a shed call: of a rule with `protects: capacity`, or of `shed`. On 503 some load
   * balancers remove the process for a while. @default 429
   */
  readonly shedStatus?: 429 | 503 | undefined
  /** @default console */
  readonly logger?: MiddlewareLogger | undefined
  /** `false` logs no warnings; a list silences these. @default all are logged, once per process */
  readonly warnings?: false | readonly WarningCode[] | undefined
}
