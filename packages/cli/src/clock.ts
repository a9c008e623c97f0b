/** The only module of this package that reads the time. */

/** Milliseconds since 1970. */
export function wallMs(): number {
  return Date.now()
}
