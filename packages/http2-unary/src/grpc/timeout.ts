/** The specification of gRPC allows eight digits. */
const DIGITS_MAX = 8

const UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
}

/** The milliseconds of a `grpc-timeout`, or undefined if it is none. */
export function parseTimeoutMs(value: string): number | undefined {
  const digits = value.length - 1
  const unitMs = UNIT_MS[value.charAt(digits)]
  if (unitMs === undefined || digits < 1 || digits > DIGITS_MAX) return undefined
  let count = 0
  for (let index = 0; index < digits; index++) {
    const digit = value.charCodeAt(index) - 0x30
    if (digit < 0 || digit > 9) return undefined
    count = count * 10 + digit
  }
  return count * unitMs
}
