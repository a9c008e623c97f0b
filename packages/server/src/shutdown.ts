/** Leaving without dropping a call: not ready at once, then no new calls, then the last answers. */
import type { WallClock } from './lib/wall-clock.js'

export interface Drainable {
  /** From now on every answer asks its client to open another connection next time. */
  beginDraining(): void
  /** Takes no more connections. */
  stopAccepting(): Promise<void>
  /** Closes connections that wait for nothing. */
  closeIdle(): void
  inFlight(): number
  destroyAll(): void
}

export interface DrainResult {
  /** Calls that were still under way when time was up. */
  readonly cut: number
}

export interface DrainOptions {
  readonly clock: WallClock
  /** How long new calls are still taken: balancers need a moment to see that this node leaves. */
  readonly delayMs: number
  /** When all of it ends at the latest. */
  readonly withinMs: number
  readonly sleep: (ms: number) => Promise<void>
  /** Told when no more calls are taken. */
  readonly onStopped: () => void
}

const POLL_EVERY_MS = 20
/** A connection that was just taken may have its first call on the way. */
const SILENT_MS = 200
/** Kept for closing stores and writing the last log lines. */
const RESERVE_MS = 300

export async function drain(
  entryPoints: readonly Drainable[],
  options: DrainOptions,
): Promise<DrainResult> {
  const { clock, delayMs, withinMs, sleep, onStopped } = options
  const until = clock.now() + withinMs - RESERVE_MS
  for (const entryPoint of entryPoints) entryPoint.beginDraining()
  if (delayMs > 0) await sleep(delayMs)
  // Right after the loop has taken what is there: the kernel resets what waits to be accepted.
  await new Promise((resolve) => setImmediate(resolve))
  await Promise.all(entryPoints.map((entryPoint) => entryPoint.stopAccepting()))
  onStopped()
  const underWay = () => entryPoints.reduce((sum, entryPoint) => sum + entryPoint.inFlight(), 0)
  const silentUntil = clock.now() + SILENT_MS
  while (clock.now() < until) {
    const isSilent = clock.now() >= silentUntil
    if (isSilent && underWay() === 0) break
    await sleep(POLL_EVERY_MS)
    if (isSilent) for (const entryPoint of entryPoints) entryPoint.closeIdle()
  }
  const cut = underWay()
  for (const entryPoint of entryPoints) entryPoint.destroyAll()
  return { cut }
}
