/** Texts about rules that only the dashboard has; the others are in `@sluice/core/text`. */
import { isRecord, valueText } from '@sluice/core/text'
import { count } from '../../format.js'

/** What a rule does when the store does not answer: `fail open`, `fail closed`, `fail local`. */
export function storeFailureText(posture: unknown): string {
  if (isRecord(posture)) return `fail local, ${valueText(posture['local'])} times the limit`
  return `fail ${valueText(posture ?? 'local')}`
}

/** `critical 100 %, writes 80 %, reads 70 %`: what is not kept free for more important ones. */
export function ceilingsText(headroom: unknown, priorities: readonly unknown[]): string {
  const reserves = isRecord(headroom) ? headroom : {}
  let left = 100
  return priorities
    .map((priority) => {
      const name = valueText(priority)
      const text = `${name} ${Math.round(left * 100) / 100} %`
      left -= percentOf(reserves[name])
      return text
    })
    .join(', ')
}

/** Shares are written as `20%` or 0.2. */
function percentOf(share: unknown): number {
  if (typeof share === 'number') return share * 100
  return typeof share === 'string' ? Number.parseFloat(share) || 0 : 0
}

const SPANS: readonly (readonly [number, string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1000, 's'],
]

/** The exact length of a window: `1 h`, `90 s`. */
export function spanText(ms: number): string {
  const [unit, name] = SPANS.find(([each]) => ms >= each && ms % each === 0) ?? [1, 'ms']
  return `${count(ms / unit)} ${name}`
}

/** A wait, rounded up, so that a caller who waits this long is not too early. */
export function waitText(ms: number): string {
  if (ms < 1000) return `${Math.ceil(ms)} ms`
  const seconds = ms / 1000
  if (seconds < 10) return `${Math.ceil(seconds * 10) / 10} s`
  if (seconds < 120) return `${Math.ceil(seconds)} s`
  if (seconds < 7200) return `${Math.ceil(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.ceil(seconds / 3600)} h` : `${Math.ceil(seconds / 86_400)} d`
}
