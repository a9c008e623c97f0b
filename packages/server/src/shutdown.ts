/** Graceful shutdown: report not ready, then refuse new calls, then finish those in flight. */
import type { WallClock } from './lib/wall-clock.js'

export interface Drainable {
  /** From now on every response says `Connection: close`. */
  beginDraining(): void
  /** Stops accepting connections. */
  stopAccepting(): Promise<void>
  /** Closes connections without a request in flight. */
  closeIdle(): void
  inFlight(): number
  /** Connections whose clients may still send calls, as they do not know yet that this stops. */
  leaving?(): number
  destroyAll(): void
}

export interface DrainResult {
  /** Calls that were still in flight when the time was up. */
  readonly cut: number
}

export interface DrainOptions {
  readonly clock: WallClock
  /** How long new calls are still accepted, until load balancers see that this node leaves. */
  readonly delayMs: number
  /** The maximum duration of the shutdown. */
  readonly withinMs: number
  readonly sleep: (ms: number) => Promise<void>
  /** Called when no more connections are accepted. */
  readonly onStopped: () => void
}

const POLL_EVERY_MS = 20
/** A connection that was just accepted may still send its first call. */
const SILENT_MS = 200
/** Reserved for closing stores and writing the last log lines. */
const RESERVE_MS = 300

export async function drain(
  entryPoints: readonly Drainable[],
  options: DrainOptions,
): Promise<DrainResult> {
  const { clock, delayMs, withinMs, sleep, onStopped } = options
  const until = clock.now() + withinMs - RESERVE_MS
  for (const entryPoint of entryPoints) entryPoint.beginDraining()
  if (delayMs > 0) await sleep(delayMs)
  // After the event loop accepted what is queued: the kernel resets connections left in the queue.
  await new Promise((resolve) => setImmediate(resolve))
  await Promise.all(entryPoints.map((entryPoint) => entryPoint.stopAccepting()))
  onStopped()
  const underWay = () => entryPoints.reduce((sum, entryPoint) => sum + entryPoint.inFlight(), 0)
  const leaving = () => entryPoints.reduce((sum, each) => sum + (each.leaving?.() ?? 0), 0)
  const silentUntil = clock.now() + SILENT_MS
  while (clock.now() < until) {
    const isSilent = clock.now() >= silentUntil
    if (isSilent && underWay() === 0 && leaving() === 0) break
    await sleep(POLL_EVERY_MS)
    if (isSilent) for (const entryPoint of entryPoints) entryPoint.closeIdle()
  }
  const cut = underWay()
  for (const entryPoint of entryPoints) entryPoint.destroyAll()
  return { cut }
}
