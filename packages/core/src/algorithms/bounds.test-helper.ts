/** The bound that most algorithms promise, checked over every interval of what passed. */
import type { Limit } from '../limit.js'

interface Admission {
  readonly at: number
  readonly units: number
}

/**
 * Fails if in some interval t more passed than `atOnce + max * t / window`. A bucket whose rate is
 * too fine for microseconds cuts time to milliseconds, so its interval may seem so much longer.
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
