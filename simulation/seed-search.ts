/** Runs seed after seed until one fails. */
import { generateScenario } from './generate.js'
import { type MutationName, withMutation } from './mutations.js'
import type { Scenario } from './scenario.js'
import { type ShrunkRun, shrink } from './shrink.js'
import { type Run, type RunOptions, runScenario } from './sim-world.js'

export interface SearchOptions {
  readonly from: number
  readonly seeds: number
  readonly mutation?: MutationName | undefined
  /** The only invariant to check. */
  readonly only?: string | undefined
  /** Called after each seed that passes. */
  readonly onSeed?: ((seed: number, run: Run) => void) | undefined
}

export interface SeedRun {
  readonly seed: number
  readonly scenario: Scenario
  readonly run: Run
}

export async function search(options: SearchOptions): Promise<SeedRun | undefined> {
  const { from, seeds, mutation, only, onSeed } = options
  for (let seed = from; seed < from + seeds; seed++) {
    const { scenario, run } = await runSeed(seed, mutation, { only })
    if (run.violation !== undefined) return { seed, scenario, run }
    onSeed?.(seed, run)
  }
  return undefined
}

export async function runSeed(
  seed: number,
  mutation?: MutationName,
  options?: RunOptions,
): Promise<SeedRun> {
  const scenario = generateScenario(seed)
  const run = await withMutation(mutation, () => runScenario(scenario, options))
  return { seed, scenario, run }
}

export async function shrinkSeedRun(seedRun: SeedRun, mutation?: MutationName): Promise<ShrunkRun> {
  return withMutation(mutation, () => shrink(seedRun.scenario, seedRun.run))
}
