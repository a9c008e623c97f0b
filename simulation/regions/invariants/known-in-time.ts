/**
 * What one region takes is known to every other within half of `syncEvery` and the way there, and
 * after a fault within two seconds, or four if no connection ended: unless the node was killed,
 * never learned that the units were taken, gave them back, lost the report on a wire that broke, or
 * the window is over.
 */
import { windowNumberOf } from '@sluice/core'
import { type MergedCounter, type Taken, takenByOf } from '../region-truth.js'
import { delayUs, readyUs } from './delays.js'
import type { MakeRegionInvariant } from './region-invariant.js'

/** What waits is told so long after a fault. */
const HEALED_US = 2_000_000
/**
 * Of a connection that is dead without an error a link learns by the deadline of what it sent; the
 * breaker may open then, and is closed by the next probe.
 */
const DEAD_US = 4_000_000

export const knownInTime: MakeRegionInvariant = ({ truth, after, nowUs, storeUs }) => {
  const { scenario } = truth
  const name = 'what one region takes is known to all in time'
  const others = (region: string) =>
    scenario.settings.regions.map((each) => each.name).filter((each) => each !== region)
  const findProblem = (counter: MergedCounter, taken: Taken, to: string, units: number) => {
    const { node, region, at } = taken
    if (truth.gone.has(node) || counter.isReset) return undefined
    const told = truth.toldOf(counter, { node, to })
    const { given, unlearned } = takenByOf(counter, node)
    const age = windowNumberOf(counter.limit, storeUs(region)) - windowNumberOf(counter.limit, at)
    // Checks are made in the order of the takes, so all that expired before is counted by now.
    if (age > 1) told.expired += taken.units
    const known = told.units + told.doubtful + told.expired + given + unlearned
    if (known >= units) return undefined
    return `${to} knows ${known} of ${units} that ${node} took by ${taken.trueUs}`
  }
  return {
    name,
    onTaken: (counter, taken) => {
      const { node, region, trueUs } = taken
      const { units } = takenByOf(counter, node)
      for (const to of others(region)) {
        const lateUs = delayUs(scenario, region, to)
        const quietUs = truth.faultsOf(node, region, to).map(({ fault, endsUs }) => {
          return endsUs + (fault.kind === 'cut' ? DEAD_US : HEALED_US) + lateUs
        })
        const dueUs = Math.max(trueUs + lateUs, readyUs(scenario, region, to), ...quietUs)
        after(dueUs - nowUs(), { name, run: () => findProblem(counter, taken, to, units) })
      }
      return undefined
    },
  }
}
