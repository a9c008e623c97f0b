/** The worlds that can be simulated: one fleet, and fleets in several regions. */
import { generateScenario } from './generate.js'
import { MUTATIONS } from './mutations.js'
import { generateRegions } from './regions/generate-regions.js'
import { REGION_MUTATIONS } from './regions/region-mutations.js'
import { runRegions } from './regions/region-world.js'
import type { Parts, RunOptions, WorldRun } from './run.js'
import { runScenario } from './sim-world.js'

/** Applies a mutation, and returns a function that removes it. */
type Mutation = () => () => void

export interface World {
  readonly mutations: Readonly<Record<string, Mutation>>
  /** The scenario of a seed. */
  scenario(seed: number): WorldScenario
}

/** A scenario with the world that it is of. */
export interface WorldScenario {
  readonly parts: Parts
  run(options?: RunOptions): Promise<WorldRun>
  /** The same with some parts replaced by fewer of them. */
  with(fewer: Partial<Parts>): WorldScenario
}

function world<Scenario extends Parts>(
  generate: (seed: number) => Scenario,
  run: (scenario: Scenario, options?: RunOptions) => Promise<WorldRun>,
  mutations: World['mutations'],
): World {
  const of = (parts: Scenario): WorldScenario => ({
    parts,
    run: (options) => run(parts, options),
    with: (fewer) => of({ ...parts, ...fewer }),
  })
  return { mutations, scenario: (seed) => of(generate(seed)) }
}

export const WORLDS = {
  fleet: world(generateScenario, runScenario, MUTATIONS),
  regions: world(generateRegions, runRegions, REGION_MUTATIONS),
} as const satisfies Record<string, World>

export type WorldName = keyof typeof WORLDS

export function isWorld(name: string): name is WorldName {
  return Object.hasOwn(WORLDS, name)
}

/** Runs with a mutation of the engine, or without a name with the unchanged engine. */
export async function withMutation<Result>(
  { mutations }: World,
  name: string | undefined,
  run: () => Promise<Result>,
): Promise<Result> {
  const mutate = name === undefined ? undefined : mutations[name]
  if (name !== undefined && mutate === undefined) throw new Error(`no mutation ${name}`)
  const restore = mutate?.()
  try {
    return await run()
  } finally {
    restore?.()
  }
}
