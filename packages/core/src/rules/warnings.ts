/** What a rule by itself does that its writer may not have meant. Errors with `strict`. */
import { formatDuration } from '../duration.js'
import { type PlacedLimit, placeLimits } from './placed-limits.js'
import type { PlacedRule } from './parse-rule.js'
import { complain, fieldOf } from './reader.js'

const LOG_ENTRIES_MANY = 1000
const LOG_CALLS_PER_SECOND_MANY = 10
/** The most that Redis takes for one entry of a log. */
const LOG_ENTRY_BYTES = 16
const FIXED_WINDOW_MS_LONG = 1000

/** For a rule without problems. One that is off does nothing, so nothing of it can surprise. */
export function warnOfRule({ rule, map }: PlacedRule): void {
  if (rule.mode === 'off') return
  // Memory is taken and counters multiply in shadow too; only refusals wait for `enforce`.
  if (rule.by.includes('path')) {
    const accepted = 'by route, or by the attributes of the caller alone'
    complain(fieldOf(map, 'by') ?? map, 'by-path', { found: '"path"', accepted })
  }
  for (const placed of placeLimits(rule, map)) {
    warnOfLog(placed)
    if (rule.mode === 'enforce' && !placed.isCandidate) warnOfFixedWindow(placed)
  }
}

function warnOfLog({ spot, limit }: PlacedLimit): void {
  const { max, windowMs } = limit
  if (limit.algorithm !== 'sliding-window-log') return
  const isFast = max * 1000 > LOG_CALLS_PER_SECOND_MANY * windowMs
  if (max <= LOG_ENTRIES_MANY && !isFast) return
  const bytes = max * LOG_ENTRY_BYTES
  complain(spot, 'large-log', {
    found: `${max}/${formatDuration(windowMs)}, up to ${bytes} bytes for each caller`,
    accepted:
      `up to ${LOG_CALLS_PER_SECOND_MANY} calls a second and ${LOG_ENTRIES_MANY} entries, ` +
      'or a sliding-window-counter',
  })
}

function warnOfFixedWindow({ spot, limit }: PlacedLimit): void {
  const { max, windowMs } = limit
  if (limit.algorithm !== 'fixed-window' || windowMs <= FIXED_WINDOW_MS_LONG || max === 0) return
  complain(spot, 'long-fixed-window', {
    found: formatDuration(windowMs),
    why: `admits up to ${2 * max} calls around its edge`,
    accepted: 'a sliding-window-counter or a token-bucket, a window up to 1s, or mode: shadow',
  })
}
