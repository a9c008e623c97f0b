/** Runs seed after seed until one fails. */
import { generateScenario } from './generate.js'
import { type PlantedName, withPlanted } from './planted.js'
import type { Scenario } from './scenario.js'
import { type Shrunk, shrink } from './shrink.js'
import { type Run, type RunOptions, runScenario } from './world.js'

export interface Search {
  readonly from: number
  readonly seeds: number
  readonly planted?: PlantedName | undefined
  /** The name of the only invariant to be checked. */
  readonly only?: string | undefined
  /** Called after each seed that holds. */
  readonly onSeed?: ((seed: number, run: Run) => void) | undefined
}

export interface Found {
  readonly seed: number
  readonly scenario: Scenario
  readonly run: Run
}

export async function search(wanted: Search): Promise<Found | undefined> {
  const { from, seeds, planted, only, onSeed } = wanted
  for (let seed = from; seed < from + seeds; seed++) {
    const { scenario, run } = await runSeed(seed, planted, { only })
    if (run.violation !== undefined) return { seed, scenario, run }
    onSeed?.(seed, run)
  }
  return undefined
}

export async function runSeed(
  seed: number,
  planted?: PlantedName,
  options?: RunOptions,
): Promise<Found> {
  const scenario = generateScenario(seed)
  const run = await withPlanted(planted, () => runScenario(scenario, options))
  return { seed, scenario, run }
}

export async function shrinkFound(found: Found, planted?: PlantedName): Promise<Shrunk> {
  return withPlanted(planted, () => shrink(found.scenario, found.run))
}
