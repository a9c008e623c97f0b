/**
 * Reads what a response says about rate limits, in the dialects of the IETF drafts and of large
 * APIs. A dialect is an entry of a table. A field that cannot be read is ignored, as the draft
 * demands; nothing here throws.
 */

/** One limit that the server reported. */
export interface RateLimitPolicy {
  /** The name from the field, or a fixed one for the dialect, such as `requests`. */
  readonly name: string
  /** The units of a full window or bucket. */
  readonly limit?: number | undefined
  readonly windowMs?: number | undefined
  /** The units that are left. */
  readonly remaining: number
  /** The time until the limit resets, or until the bucket is full. */
  readonly resetMs?: number | undefined
  /** Known only where the dialect documents it. */
  readonly kind?: 'bucket' | undefined
}

/** What a response says about rate limits. */
export interface RateLimitReading {
  /** All limits, the one with the smallest share left first. */
  readonly policies: readonly RateLimitPolicy[]
  /** The time for which the server asks callers to wait. */
  readonly retryAfterMs?: number | undefined
}

/** `Headers`, or anything else with its `get`. */
export interface HeaderSource {
  get(name: string): string | null | undefined
}

type Field = (name: string) => string
type Time = (text: string) => number | undefined
type Reader = (field: Field, time: Time) => RateLimitPolicy[]

/** Longer fields are cut, because the time to read them must be bounded. */
const FIELD_LENGTH_MAX = 4096
/** Larger numbers are instants: in seconds since 1970, or in milliseconds from the second one. */
const EPOCH_S_MIN = 1e9
const EPOCH_MS_MIN = 1e11
/** Longer times are mistakes, such as a date in another unit, and would hold calls for ever. */
const TIME_MS_MAX = 366 * 86_400_000
/** Shopify empties a full bucket in 20 s on every plan: 40 at 2 a second up to 400 at 20. */
const SHOPIFY_WINDOW_MS = 20_000

const GO_UNITS: Readonly<Record<string, number>> = {
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
  us: 1e-3,
  µs: 1e-3,
  ns: 1e-6,
}
const GO_DURATION = /^(?:\d{1,15}(?:\.\d{1,15})?(?:ms|us|µs|ns|h|m|s))+$/
const DATE = /^(?:\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]+,? )/
const PARAMETER = /;\s*([a-z*][\w.*-]*)(?:=("(?:[^"\\]|\\.)*"|[^\s;,"]+))?/g
/** One item of a structured list: a string, token or number, and its parameters. */
const ITEM = new RegExp(
  `\\s*(?:"((?:[^"\\\\]|\\\\.)*)"|([\\w*/.%:-]+))((?:\\s*${PARAMETER.source})*)\\s*(?:,|$)`,
  'y',
)

function numberOf(text: string | undefined): number | undefined {
  return text && /^\d{1,15}(?:\.\d{1,9})?$/.test(text) ? Number(text) : undefined
}

const plausible = (ms: number | undefined) =>
  ms !== undefined && ms <= TIME_MS_MAX ? Math.max(0, ms) : undefined

/** Seconds, an instant as a number, a duration as Go writes it, or a date. */
function timeOf(text: string, nowMs: number): number | undefined {
  let ms = numberOf(text)
  if (ms !== undefined) {
    if (ms < EPOCH_S_MIN) return plausible(ms * 1000)
    ms = (ms < EPOCH_MS_MIN ? ms * 1000 : ms) - nowMs
  } else if (GO_DURATION.test(text)) {
    ms = 0
    for (const [, count, unit] of text.matchAll(/([\d.]+)([a-zµ]+)/g)) {
      ms += Number(count) * (GO_UNITS[unit ?? ''] ?? 0)
    }
  } else if (DATE.test(text)) {
    ms = Date.parse(/(?:GMT|UTC|Z|[+-]\d\d:?\d\d)$/.test(text) ? text : `${text} GMT`) - nowMs
  }
  return plausible(ms)
}

interface Item {
  readonly name: string
  readonly parameters: ReadonlyMap<string, string>
}

/** Reads a structured list; empty if any part of it is malformed. */
function itemsOf(text: string): readonly Item[] {
  const items: Item[] = []
  for (ITEM.lastIndex = 0; ITEM.lastIndex < text.length; ) {
    const match = ITEM.exec(text)
    if (!match) return []
    const parameters = new Map<string, string>()
    for (const [, key = '', value = ''] of match[3]?.matchAll(PARAMETER) ?? []) {
      parameters.set(key, value.replaceAll('"', ''))
    }
    items.push({ name: match[1] ?? match[2] ?? '', parameters })
  }
  return items
}

const numberFrom = (item: Item | undefined, ...keys: readonly string[]) => {
  for (const key of keys) {
    const value = numberOf(item?.parameters.get(key))
    if (value !== undefined) return value
  }
  return undefined
}

const inMs = (seconds: number | undefined) =>
  seconds === undefined ? seconds : plausible(seconds * 1000)

/** `RateLimit: "name";r=50;t=30` with `RateLimit-Policy: "name";q=100;w=60`: drafts 8 to 11. */
const structured: Reader = (field) => {
  const policies = itemsOf(field('ratelimit-policy'))
  return itemsOf(field('ratelimit')).flatMap((item) => {
    const remaining = numberFrom(item, 'r', 'a')
    const partition = item.parameters.get('pk')
    const isSame = ({ name, parameters }: Item) =>
      name === item.name && (!partition || parameters.get('pk') === partition)
    const policy = policies.find(isSame)
    // What is in flight is not counted over time.
    if (remaining === undefined || policy?.parameters.get('qu') === 'concurrent-requests') return []
    return {
      name: item.name + (partition ?? ''),
      limit: numberFrom(policy, 'q'),
      windowMs: inMs(numberFrom(policy, 'w')),
      remaining,
      resetMs: inMs(numberFrom(item, 't', 'w')),
    }
  })
}

/** The window of a limit as drafts 3 to 7 list it, `100;w=60`; found by the number of units. */
function windowOf(listed: string, limit: number | undefined): number | undefined {
  const isSame = ({ name, parameters }: Item) => numberOf(name) === limit && parameters.has('w')
  return inMs(numberFrom(itemsOf(listed).find(isSame), 'w'))
}

/** `RateLimit: limit=100, remaining=50, reset=5`: draft 7. */
const dictionary: Reader = (field) => {
  const parameters = new Map<string, string>()
  for (const [, key = '', value = ''] of field('ratelimit').matchAll(
    /\b(limit|remaining|reset)=(\d+)/g,
  )) {
    parameters.set(key, value)
  }
  const item = { name: 'default', parameters }
  const remaining = numberFrom(item, 'remaining')
  const limit = numberFrom(item, 'limit')
  if (remaining === undefined || limit === undefined) return []
  const windowMs = windowOf(field('ratelimit-policy'), limit)
  return [{ name: item.name, limit, windowMs, remaining, resetMs: inMs(numberFrom(item, 'reset')) }]
}

/** Three fields that share a name but for one word: `*` is `limit`, `remaining` and `reset`. */
const triple =
  (pattern: string, name: string, kind?: 'bucket'): Reader =>
  (field, time) => {
    const get = (word: string) => field(pattern.replace('*', word))
    const remaining = numberOf(get('remaining'))
    if (remaining === undefined) return []
    const limit = numberOf(/^\s*(\d+)/.exec(get('limit'))?.[1])
    const resource = name || field('x-ratelimit-resource') || 'default'
    const windowMs = windowOf(field('ratelimit-policy') || get('limit'), limit)
    return [{ name: resource, limit, windowMs, remaining, resetMs: time(get('reset')), kind }]
  }

const shopify: Reader = (field) => {
  const match = /^(\d{1,9})\/(\d{1,9})$/.exec(field('x-shopify-shop-api-call-limit'))
  if (!match) return []
  const [used, limit] = [Number(match[1]), Number(match[2])]
  const resetMs = limit ? (used / limit) * SHOPIFY_WINDOW_MS : 0
  const remaining = Math.max(0, limit - used)
  return [
    { name: 'shopify', limit, windowMs: SHOPIFY_WINDOW_MS, remaining, resetMs, kind: 'bucket' },
  ]
}

/** Each entry is a group of readers; the first group that finds a limit is used. */
const DIALECTS: readonly (readonly Reader[])[] = [
  [structured],
  [dictionary],
  [
    // OpenAI, and the many that copy it.
    triple('x-ratelimit-*-requests', 'requests', 'bucket'),
    triple('x-ratelimit-*-tokens', 'tokens', 'bucket'),
    // Anthropic.
    triple('anthropic-ratelimit-requests-*', 'requests', 'bucket'),
    triple('anthropic-ratelimit-tokens-*', 'tokens', 'bucket'),
    triple('anthropic-ratelimit-input-tokens-*', 'input-tokens', 'bucket'),
    triple('anthropic-ratelimit-output-tokens-*', 'output-tokens', 'bucket'),
  ],
  // Drafts 3 to 6, Kong, envoyproxy/ratelimit.
  [triple('ratelimit-*', 'default')],
  // GitHub, which names the resource, and most others.
  [triple('x-ratelimit-*', '')],
  [triple('x-rate-limit-*', '')],
  [shopify],
]

const shareLeft = ({ remaining, limit }: RateLimitPolicy) => remaining / (limit || 1)

/**
 * Reads the rate limit headers of a response.
 *
 * Instants are compared with the `Date` header if there is one, because the clocks of client and
 * server may differ; else with `nowMs`.
 *
 * @example
 * const { policies, retryAfterMs } = readRateLimit(response.headers, Date.now())
 * console.log(policies[0]?.remaining, policies[0]?.resetMs, retryAfterMs)
 */
export function readRateLimit(headers: HeaderSource, nowMs: number): RateLimitReading {
  const field: Field = (name) => (headers.get(name) ?? '').slice(0, FIELD_LENGTH_MAX).trim()
  const date = DATE.test(field('date')) ? Date.parse(field('date')) : Number.NaN
  const time: Time = (text) => timeOf(text, date || nowMs)
  let policies: RateLimitPolicy[] = []
  for (const readers of DIALECTS) {
    policies = readers.flatMap((read) => read(field, time))
    if (policies[0]) break
  }
  policies.sort((a, b) => shareLeft(a) - shareLeft(b))
  const retryAfterMs = plausible(numberOf(field('retry-after-ms'))) ?? time(field('retry-after'))
  return { policies, retryAfterMs }
}
