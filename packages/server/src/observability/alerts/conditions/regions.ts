/** Finds other regions that cannot be told what callers spent here, and clocks that differ. */
import { durationText } from '@sluice/core'
import type { RegionStats } from '@sluice/limiter'
import type { Finding } from '../alert.js'

/** What waits for longer than this is not on its way any more. */
const LAG_MS_MAX = 5000
/** A region whose nodes have not been heard of for this long has lost them, or the way here. */
const SILENCE_MS_MAX = 5000
/** Windows of two regions begin apart by as much; a unit near an edge may count in neither. */
const OFFSET_SECONDS_MAX = 0.05
/** A single reading may be off because of network delay. */
const CONSECUTIVE_MIN = 3

export class RegionSilence {
  /** Regions that this node has reached or heard of: the first start of one is no outage. */
  readonly #known = new Set<string>()

  /** Called once a second. */
  evaluate(regions: readonly RegionStats[]): readonly Finding[] {
    return regions.flatMap((each) => {
      if (each.isAnswering || each.ageMs !== undefined) this.#known.add(each.region)
      return this.#known.has(each.region) ? findSilence(each) : []
    })
  }
}

function findSilence({ region, lagMs, ageMs, pending, isAnswering }: RegionStats): Finding[] {
  const isLagging = lagMs > LAG_MS_MAX
  const isSilent = ageMs !== undefined && ageMs > SILENCE_MS_MAX
  if (!isLagging && !isSilent) return []
  const text = (has: string, is: string) => {
    const reports = `${has} not confirmed what callers spent here for ${durationText(Math.floor(lagMs))}`
    const heartbeat = `${is} silent for ${durationText(Math.floor(ageMs ?? 0))}`
    const parts = [...(isLagging ? [reports] : []), ...(isSilent ? [heartbeat] : [])]
    return `Region ${region} ${parts.join(' and ')}: merged limits hold in each region by itself.`
  }
  const details = {
    region,
    lagMs: Math.floor(lagMs),
    silentMs: Math.floor(ageMs ?? 0),
    pending,
    answers: isAnswering ? 'yes' : 'no',
  }
  return [{ subject: region, summary: text('has', 'is'), past: text('had', 'was'), details }]
}

/** The default tolerance of rules. */
const OVER_SHARE_MAX = 0.1
const SECONDS = 60
/** Fewer seconds of a minute are a burst, as at the start of a partition that is over. */
const OVER_SECONDS_MIN = 3

export class RegionOverage {
  /** Of each of the last seconds. */
  readonly #shares = new Float64Array(SECONDS)
  #second = 0

  /** Called once a second, with the largest share beyond a merged limit. */
  evaluate(share: number): readonly Finding[] {
    this.#shares[this.#second % SECONDS] = share
    this.#second += 1
    const over = this.#shares.filter((each) => each > OVER_SHARE_MAX)
    if (over.length < OVER_SECONDS_MIN) return []
    const most = Math.max(...over)
    const percent = Math.round(most * 1000) / 10
    const text = (have: string) =>
      `Regions together ${have} admitted up to ${percent}% beyond merged limits, in ` +
      `${over.length} of the last ${SECONDS} s.`
    const details = { percent, seconds: over.length }
    return [{ subject: 'regions', summary: text('have'), past: text('had'), details }]
  }
}

export class RegionClocks {
  /** Consecutive ticks for which the clock of a region was off. */
  readonly #off = new Map<string, number>()

  /** Called once a second. */
  evaluate(regions: readonly RegionStats[]): readonly Finding[] {
    return regions.flatMap(({ region, clock }) => {
      const isOff =
        clock !== undefined &&
        Math.abs(clock.offsetSeconds) - clock.errorSeconds > OFFSET_SECONDS_MAX
      const ticks = isOff ? (this.#off.get(region) ?? 0) + 1 : 0
      this.#off.set(region, ticks)
      return clock === undefined || ticks < CONSECUTIVE_MIN ? [] : describeClock(region, clock)
    })
  }
}

function describeClock(
  region: string,
  { offsetSeconds, errorSeconds }: NonNullable<RegionStats['clock']>,
): Finding[] {
  const offsetMs = Math.round(offsetSeconds * 1000)
  const errorMs = Math.ceil(errorSeconds * 1000)
  const direction = offsetMs > 0 ? 'ahead of' : 'behind'
  const text = (is: string) =>
    `The clock of the store of region ${region} ${is} ${Math.abs(offsetMs)} ms ${direction} that ` +
    `of this region, known to ${errorMs} ms: units near the edge of a window may count in neither.`
  const details = { region, offsetMs, errorMs }
  return [{ subject: region, summary: text('is'), past: text('was'), details }]
}
