/** Checks the bound that most algorithms promise, over every interval of admissions. */
import type { Limit } from '../limit.js'

interface Admission {
  readonly at: number
  readonly units: number
}

/**
 * Fails if some interval t admitted more than `atOnce + max * t / window`. A bucket whose rate is
 * too fine for microseconds truncates time to milliseconds, so its intervals may appear up to that
 * much longer.
 */
export function expectAtMost(admissions: readonly Admission[], atOnce: number, limit: Limit): void {
  const [max, window] = [BigInt(limit.max), BigInt(limit.windowUs)]
  const isWindow = limit.algorithm === 'sliding-window-counter'
  const cutUs = isWindow ? 0n : BigInt(limit.tickUs - 1)
  admissions.forEach((first, from) => {
    let sum = 0n
    for (const last of admissions.slice(from)) {
      sum += BigInt(last.units)
      const lengthUs = BigInt(last.at - first.at) + cutUs
      const allowed = BigInt(atOnce) * window + max * lengthUs
      if (sum * window > allowed) throw new Error(`${sum} from ${first.at} to ${last.at}`)
    }
  })
}
