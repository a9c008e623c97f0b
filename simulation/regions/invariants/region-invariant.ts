/** What must hold of several regions. Every function returns a violation, or undefined. */
import type { MergedCounter, Refusal, RegionTruth, Taken, Telling } from '../region-truth.js'

export interface RegionInvariant {
  readonly name: string
  /** A store took units for its own region. */
  readonly onTaken?: (counter: MergedCounter, taken: Taken) => string | undefined
  /** A store was told what another region has spent. */
  readonly onTold?: (telling: Telling) => string | undefined
  readonly onRefused?: (refusal: Refusal) => string | undefined
  /** A call was decided, after so long in true time. */
  readonly onDecision?: (node: string, tookUs: number) => string | undefined
  readonly onReset?: (node: string, tookUs: number) => string | undefined
  readonly onClosed?: (node: string, tookUs: number) => string | undefined
  readonly atEnd?: () => string | undefined
}

interface RegionDeps {
  readonly truth: RegionTruth
  /** Checks an invariant so many microseconds of true time from now. */
  readonly after: (
    us: number,
    check: { readonly name: string; readonly run: () => string | undefined },
  ) => void
  readonly nowUs: () => number
  /** The clock of the store of a region. */
  readonly storeUs: (region: string) => number
}

export type MakeRegionInvariant = (deps: RegionDeps) => RegionInvariant
