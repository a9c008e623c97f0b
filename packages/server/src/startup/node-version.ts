/** Warns of Node versions whose HTTP parser has a known vulnerability. */

/** The first release of each line with the fix of CVE-2026-58044. */
const FIXED: ReadonlyMap<number, readonly [minor: number, patch: number]> = new Map([
  [22, [23, 2]],
  [24, [18, 1]],
  [26, [5, 1]],
])
const NEWEST_LINE = 26

/** The warning for a version such as `20.19.4`; undefined if it is not affected. */
export function findNodeWarning(version: string): string | undefined {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number)
  if (major > NEWEST_LINE) return undefined
  const fixed = FIXED.get(major)
  if (fixed !== undefined && (minor > fixed[0] || (minor === fixed[0] && patch >= fixed[1]))) {
    return undefined
  }
  return (
    `Node ${version} lacks the fix of CVE-2026-58044 (headers dropped in silence); the gateway ` +
    'counts headers itself, but 22.23.2, 24.18.1, 26.5.1 or newer is better'
  )
}
