/**
 * Shows regions to each other: every node writes a heartbeat of its region to the stores of the
 * others, and reads those of the others in its own. No decision depends on it.
 */
import { PeriodicTask, type Scheduler } from '../periodic.js'
import type { Store } from '../store.js'

const BEAT_EVERY_MS = 500
/** A heartbeat is a few numbers; a longer text is of something else. */
const TEXT_LENGTH_MAX = 1024

/** What a region says of itself. */
interface RegionHeartbeat {
  /** The time of its store when it was sent, in microseconds. */
  readonly at: number
  /** Its live nodes. */
  readonly nodes: number
  /** The version of the rules of the node that sent it; absent if that is unknown. */
  readonly rules?: string | undefined
}

/** The last heartbeat of a region, as this node knows it. */
export interface SeenRegion {
  readonly region: string
  /** How long ago its heartbeat changed, in milliseconds; undefined before the first. */
  readonly ageMs: number | undefined
  readonly heartbeat: RegionHeartbeat | undefined
  /**
   * How far the clock of its store is ahead of that of the own one, and the error of that, in
   * seconds; undefined if either is unknown.
   */
  readonly clock: { readonly offsetSeconds: number; readonly errorSeconds: number } | undefined
}

interface RegionHeartbeatsDeps {
  readonly own: string
  readonly store: Store
  readonly links: readonly { readonly region: string; readonly store: Store }[]
  /** The time of the own store, in microseconds. */
  readonly time: () => number
  readonly monotonicMs: () => number
  readonly scheduler: Scheduler
  readonly rulesVersion: () => string | undefined
}

interface Seen {
  text: string
  sinceMs: number
  heartbeat: RegionHeartbeat | undefined
}

export class RegionHeartbeats {
  readonly #deps: RegionHeartbeatsDeps
  readonly #seen = new Map<string, Seen>()
  readonly #task: PeriodicTask

  constructor(deps: RegionHeartbeatsDeps) {
    this.#deps = deps
    this.#task = new PeriodicTask(BEAT_EVERY_MS, () => this.beat(), deps.scheduler)
  }

  start(): void {
    this.#task.start()
  }

  stop(): void {
    this.#task.stop()
  }

  seen(): readonly SeenRegion[] {
    const nowMs = this.#deps.monotonicMs()
    return this.#deps.links.map(({ region, store }) => {
      const seen = this.#seen.get(region)
      return {
        region,
        ageMs: seen && nowMs - seen.sinceMs,
        heartbeat: seen?.heartbeat,
        clock: this.clockOf(store),
      }
    })
  }

  /** Never rejects: a region that cannot be reached is seen by its age. */
  private async beat(): Promise<void> {
    const { own, store, links, time, rulesVersion } = this.#deps
    const heartbeat: RegionHeartbeat = {
      at: Math.floor(time()),
      nodes: store.remote?.fleetSize() ?? 1,
      rules: rulesVersion(),
    }
    const text = JSON.stringify(heartbeat)
    const writes = links.map((link) => link.store.heartbeatExchange?.write(own, text))
    await Promise.allSettled([this.read(), ...writes])
  }

  private async read(): Promise<void> {
    const { store, links, monotonicMs } = this.#deps
    const texts = (await store.heartbeatExchange?.read(links.map(({ region }) => region))) ?? []
    const nowMs = monotonicMs()
    for (const [i, { region }] of links.entries()) {
      const text = texts[i]
      // An unchanged text was read before: its region may be gone since.
      if (text === undefined || this.#seen.get(region)?.text === text) continue
      this.#seen.set(region, { text, sinceMs: nowMs, heartbeat: readHeartbeat(text) })
    }
  }

  private clockOf({ remote }: Store): SeenRegion['clock'] {
    const own = this.#deps.store.remote
    if (own === undefined || remote === undefined) return undefined
    const errorUs = (own.uncertaintyUs?.() ?? Infinity) + (remote.uncertaintyUs?.() ?? Infinity)
    if (!Number.isFinite(errorUs)) return undefined
    const offsetUs = remote.time() - own.time()
    return { offsetSeconds: offsetUs / 1e6, errorSeconds: errorUs / 1e6 }
  }
}

/** Undefined if the text is of something else, such as a later version. */
function readHeartbeat(text: string): RegionHeartbeat | undefined {
  if (text.length > TEXT_LENGTH_MAX) return undefined
  try {
    const { at, nodes, rules } = JSON.parse(text) as Readonly<Record<string, unknown>>
    if (typeof at !== 'number' || typeof nodes !== 'number') return undefined
    return { at, nodes, rules: typeof rules === 'string' ? rules : undefined }
  } catch {
    return undefined
  }
}
