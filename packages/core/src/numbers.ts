/**
 * Integer arithmetic in doubles. Every operand and product stays at or below 2^53 - 1; then
 * `Math.floor(a / b)` and `Math.ceil(a / b)` are exact, here and in Redis's Lua.
 */

export const MAX_INTEGER = Number.MAX_SAFE_INTEGER
/** Headers carry at most 15 digits (RFC 9651), so no limit may be larger. */
export const MAX_UNITS = 999_999_999_999_999

export function gcd(a: number, b: number): number {
  while (b !== 0) {
    const rest = a % b
    a = b
    b = rest
  }
  return a
}

export function floorDiv(a: number, b: number): number {
  return Math.floor(a / b)
}

export function ceilDiv(a: number, b: number): number {
  return Math.ceil(a / b)
}

/** Waits round up: a caller that waits exactly this long must pass. */
export function usToMsUp(us: number): number {
  return Math.ceil(us / 1000)
}

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
