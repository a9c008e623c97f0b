/** Allows one log line per second of each kind, for what may happen at every call. */
import type { WallClock } from '../../lib/wall-clock.js'

export interface Throttle {
  /** Returns how many lines of this kind were suppressed; undefined if this one is, too. */
  pass(kind: string): { readonly suppressed: number } | undefined
}

const LINE_EVERY_MS = 1000
/** Kinds tracked at a time; a further kind is suppressed until another one expires. */
const KINDS_MAX = 64

interface Kind {
  lineFromMs: number
  suppressed: number
}

export function createThrottle(clock: WallClock): Throttle {
  const kinds = new Map<string, Kind>()
  return {
    pass(name) {
      const nowMs = clock.now()
      const known = kinds.get(name)
      if (known !== undefined && nowMs < known.lineFromMs && !isAhead(known, nowMs)) {
        known.suppressed++
        return undefined
      }
      if (known === undefined && kinds.size >= KINDS_MAX) forget(kinds, nowMs)
      if (known === undefined && kinds.size >= KINDS_MAX) return undefined
      kinds.set(name, { lineFromMs: nowMs + LINE_EVERY_MS, suppressed: 0 })
      return { suppressed: known?.suppressed ?? 0 }
    },
  }
}

/** Whether the wall clock was set back: nothing is suppressed for more than a second. */
function isAhead({ lineFromMs }: Kind, nowMs: number): boolean {
  return lineFromMs - nowMs > LINE_EVERY_MS
}

function forget(kinds: Map<string, Kind>, nowMs: number): void {
  for (const [name, { lineFromMs }] of kinds) if (lineFromMs <= nowMs) kinds.delete(name)
}
