/** Runs seed after seed until one fails. */
import type { RunOptions, WorldRun } from './run.js'
import { type ShrunkRun, shrink } from './shrink.js'
import { withMutation, type WorldName, WORLDS, type WorldScenario } from './worlds.js'

export interface SearchOptions {
  /** @default fleet */
  readonly world?: WorldName | undefined
  readonly from: number
  readonly seeds: number
  readonly mutation?: string | undefined
  /** The only invariant to check. */
  readonly only?: string | undefined
  /** Called after each seed that passes. */
  readonly onSeed?: ((seed: number, run: WorldRun) => void) | undefined
}

export interface SeedRun {
  readonly world: WorldName
  readonly seed: number
  readonly scenario: WorldScenario
  readonly run: WorldRun
}

export interface SeedOptions extends RunOptions {
  readonly world?: WorldName | undefined
}

export async function search(options: SearchOptions): Promise<SeedRun | undefined> {
  const { world, from, seeds, mutation, only, onSeed } = options
  for (let seed = from; seed < from + seeds; seed++) {
    const seedRun = await runSeed(seed, mutation, { world, only })
    if (seedRun.run.violation !== undefined) return seedRun
    onSeed?.(seed, seedRun.run)
  }
  return undefined
}

export async function runSeed(
  seed: number,
  mutation?: string,
  { world = 'fleet', ...options }: SeedOptions = {},
): Promise<SeedRun> {
  const scenario = WORLDS[world].scenario(seed)
  const run = await withMutation(WORLDS[world], mutation, () => scenario.run(options))
  return { world, seed, scenario, run }
}

export async function shrinkSeedRun(seedRun: SeedRun, mutation?: string): Promise<ShrunkRun> {
  const { world, scenario, run } = seedRun
  return withMutation(WORLDS[world], mutation, () => shrink(scenario, run))
}
