/**
 * Shrinks a failing scenario while it still fails in the same way: fewer faults, calls, nodes and
 * rules. It removes halves, then ever smaller pieces.
 */
import type { Parts, WorldRun } from './run.js'
import type { WorldScenario } from './worlds.js'

/** The most runs to spend; the result is then small enough to read, or nearly. */
const TRIES_MAX = 600

type Dimension = 'faults' | 'traffic' | 'nodes' | 'rules'

/** The largest parts last: removing others first makes each of their runs shorter. */
const DIMENSIONS: readonly Dimension[] = ['faults', 'rules', 'nodes', 'traffic']

export interface ShrunkRun {
  readonly scenario: WorldScenario
  readonly run: WorldRun
}

/** `run` is the result of the scenario, with a violation. */
export async function shrink(scenario: WorldScenario, run: WorldRun): Promise<ShrunkRun> {
  const shrinker = new Shrinker({ scenario, run })
  return shrinker.shrink()
}

class Shrinker {
  #best: ShrunkRun
  readonly #invariant: string | undefined
  #tries = 0

  constructor(first: ShrunkRun) {
    this.#best = first
    this.#invariant = first.run.violation?.invariant
  }

  async shrink(): Promise<ShrunkRun> {
    let before = Infinity
    while (sizeOf(this.#best.scenario.parts) < before && this.#tries < TRIES_MAX) {
      before = sizeOf(this.#best.scenario.parts)
      for (const dimension of DIMENSIONS) await this.shrinkDimension(dimension)
      await this.shorten()
    }
    return this.#best
  }

  private async shrinkDimension(dimension: Dimension): Promise<void> {
    let piece = Math.ceil(this.#best.scenario.parts[dimension].length / 2)
    while (piece >= 1) {
      let from = 0
      while (from < this.#best.scenario.parts[dimension].length && this.#tries < TRIES_MAX) {
        const { scenario } = this.#best
        const rest = scenario.parts[dimension].filter((_, i) => i < from || i >= from + piece)
        const isGone = await this.attempt(scenario.with({ [dimension]: rest }))
        if (!isGone) from += piece
      }
      piece = piece === 1 ? 0 : Math.ceil(piece / 2)
    }
  }

  /** Nothing after the violation can have caused it. */
  private async shorten(): Promise<void> {
    const { scenario, run } = this.#best
    const endMs = run.violation?.atMs ?? Infinity
    const traffic = scenario.parts.traffic.filter(({ atMs }) => atMs <= endMs)
    const faults = scenario.parts.faults.filter(({ atMs }) => atMs <= endMs)
    await this.attempt(scenario.with({ traffic, faults }))
  }

  private async attempt(scenario: WorldScenario): Promise<boolean> {
    const isSmaller = sizeOf(scenario.parts) < sizeOf(this.#best.scenario.parts)
    if (!isSmaller || scenario.parts.rules.length === 0) return false
    this.#tries += 1
    const run = await scenario.run()
    if (run.violation?.invariant !== this.#invariant) return false
    this.#best = { scenario, run }
    return true
  }
}

function sizeOf({ faults, traffic, nodes, rules }: Parts): number {
  return faults.length + traffic.length + nodes.length + rules.length
}
