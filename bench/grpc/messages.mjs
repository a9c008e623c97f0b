/** The messages of the benchmark, as bytes: requests, and what of an answer is checked. */

/** A constant answer of the floors: a RateLimitResponse that allows the call. */
export const ANSWER = Buffer.from([8, 1])

const VARINT = 0
const BYTES = 2
const OK = 1
const OVER_LIMIT = 2
const CALLER = '0123456789abcdef01234567'
const HOUR_MS = 3_600_000

export const DOMAIN = 'bench'
/** Far above what a run asks for, and the most that envoyproxy/ratelimit can count. */
export const PLENTY = 4_000_000_000
/** The keys of descriptors: one is never refused, the other after its first call. */
export const KEYS = { admitted: 'caller', refused: 'refused' }

/** A RateLimitRequest of one domain and one descriptor, with the prefix of gRPC. */
export function rateLimitRequest(kind) {
  const entry = [...text(1, KEYS[kind]), ...text(2, CALLER)]
  return framed([...text(1, DOMAIN), ...bytes(2, bytes(1, entry))])
}

/** The same as a GetRateLimitsReq of gubernator, which has its limits in the request. */
export function gubernatorRequest(kind) {
  const limit = kind === 'refused' ? 1 : PLENTY
  const fields = [...text(1, `${DOMAIN}_${KEYS[kind]}`), ...text(2, CALLER)]
  const numbers = [...number(3, 1), ...number(4, limit), ...number(5, HOUR_MS)]
  return framed(bytes(1, [...fields, ...numbers]))
}

/** The kind of a RateLimitResponse: the field overall_code is its first. */
export function kindOfRateLimitResponse(message) {
  if (message[0] !== 1 << 3) return undefined
  if (message[1] === OK) return 'admitted'
  return message[1] === OVER_LIMIT ? 'refused' : undefined
}

/** The kind of a GetRateLimitsResp with one answer; status 0 is UNDER_LIMIT, and is not sent. */
export function kindOfGubernatorResponse(message) {
  if (message[0] !== ((1 << 3) | BYTES) || message.length < 4) return undefined
  const isRefused = message[2] === 1 << 3 && message[3] === 1
  // Field 2 is the limit, which an answer with an error has not.
  const isLimit = message[isRefused ? 4 : 2] === 2 << 3
  if (!isLimit) return undefined
  return isRefused ? 'refused' : 'admitted'
}

function framed(message) {
  const prefix = Buffer.alloc(5)
  prefix.writeUInt32BE(message.length, 1)
  return Buffer.concat([prefix, Buffer.from(message)])
}

function text(field, value) {
  return bytes(field, [...Buffer.from(value)])
}

function bytes(field, value) {
  return [(field << 3) | BYTES, ...varint(value.length), ...value]
}

function number(field, value) {
  return [(field << 3) | VARINT, ...varint(value)]
}

function varint(value) {
  const out = []
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return [...out, rest]
    out.push((rest % 128) | 128)
  }
}
