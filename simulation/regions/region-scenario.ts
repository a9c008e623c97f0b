/**
 * Everything that happens to fleets in several regions from outside, as plain data. Times are
 * milliseconds of true time from the start.
 */
import type { NodeSpec, RuleSpec } from '../scenario.js'

export interface RegionScenario {
  readonly seed: number
  readonly settings: RegionSettings
  readonly rules: readonly RuleSpec[]
  readonly nodes: readonly RegionNodeSpec[]
  readonly traffic: readonly RegionArrival[]
  readonly faults: readonly RegionFault[]
}

export interface RegionSettings {
  /** True time at the start, in microseconds. */
  readonly startUs: number
  readonly lengthMs: number
  readonly deadlineMs: number
  readonly syncEveryMs: number
  /** Latency of one direction within a region: the minimum, and the mean of what is added. */
  readonly delayMs: number
  readonly jitterMs: number
  readonly regions: readonly RegionSpec[]
}

export interface RegionSpec {
  readonly name: string
  /** Its part of the way to every other region, one direction. */
  readonly farMs: number
  /** How far the clock of its store is ahead of true time at the start. */
  readonly storeAheadMs: number
  readonly storeDriftPpm: number
}

export interface RegionNodeSpec extends NodeSpec {
  readonly region: string
}

export type RegionArrival = RegionCall | RegionReset

interface RegionCall {
  readonly kind: 'call'
  readonly atMs: number
  readonly node: string
  readonly user: string
  readonly cost: number
  /** Refunds the call, on a node of any region. */
  readonly refund?: { readonly afterMs: number; readonly node: string }
}

/** Resets the counters of a caller in all regions. */
interface RegionReset {
  readonly kind: 'reset'
  readonly atMs: number
  readonly node: string
  readonly user: string
}

/** The links between two regions, in both directions. */
interface BetweenFault {
  readonly atMs: number
  readonly between: readonly [string, string]
  readonly forMs: number
}

interface NodeFault {
  readonly atMs: number
  readonly node: string
}

export type RegionFault =
  /** Nothing arrives, without an error. */
  | (BetweenFault & { readonly kind: 'cut' })
  /** Everything arrives, but only at the end. */
  | (BetweenFault & { readonly kind: 'stall' })
  /** The connections end with an error. */
  | (BetweenFault & { readonly kind: 'reset' })
  /** The store of a region is paused, and then applies everything that has arrived. */
  | {
      readonly kind: 'store-pause'
      readonly atMs: number
      readonly region: string
      readonly forMs: number
    }
  /** A node loses the store of its own region, without an error. */
  | (NodeFault & { readonly kind: 'own-cut'; readonly forMs: number })
  | (NodeFault & { readonly kind: 'pause'; readonly forMs: number })
  | (NodeFault & { readonly kind: 'kill' })
  /** Shut down gracefully. */
  | (NodeFault & { readonly kind: 'stop' })

export type RegionFaultKind = RegionFault['kind']
