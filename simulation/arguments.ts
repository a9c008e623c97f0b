/** Parses the command line. */
import { parseArgs } from 'node:util'
import { isWorld, type WorldName, WORLDS } from './worlds.js'

export const HELP = `Runs fleets of real limiters over a simulated store, network and clocks, and checks after every
event what must hold. One seed is one run; the same seed is the same run.

  npm run simulate -- [options]

  --seeds N        how many seeds to run (default 1000)
  --from N         the first of them (default 0)
  --seed N         one seed only, with everything that happens
  --world NAME     ${Object.keys(WORLDS).join(', ')} (default fleet)
  --mutation NAME  with a mistake in the engine:
${mutationLines()}
  --help           this text

Exit codes: 0 everything held, 1 something did not, 2 the arguments are wrong.`

export type SimulateCommand =
  | { readonly kind: 'help' }
  | { readonly kind: 'wrong'; readonly problem: string }
  | (Chosen & { readonly kind: 'one'; readonly seed: number })
  | (Chosen & { readonly kind: 'many'; readonly from: number; readonly seeds: number })

interface Chosen {
  readonly world: WorldName
  readonly mutation: string | undefined
}

const SEEDS_DEFAULT = 1000
const SEED_MAX = Number.MAX_SAFE_INTEGER / 2

export function readArguments(args: readonly string[]): SimulateCommand {
  const read = parse(args)
  if ('problem' in read) return { kind: 'wrong', problem: read.problem }
  const { values } = read
  if (values.help === true) return { kind: 'help' }
  const { seeds, from, seed, mutation, world = 'fleet' } = values
  for (const [name, text] of Object.entries({ seeds, from, seed })) {
    const problem = findProblem(name, text)
    if (problem !== undefined) return { kind: 'wrong', problem }
  }
  if (!isWorld(world)) return notOneOf('world', world, WORLDS)
  const { mutations } = WORLDS[world]
  if (mutation !== undefined && !Object.hasOwn(mutations, mutation))
    return notOneOf('mutation', mutation, mutations)
  const chosen = { world, mutation }
  if (seed !== undefined) return { kind: 'one', seed: Number(seed), ...chosen }
  return { kind: 'many', from: Number(from ?? 0), seeds: Number(seeds ?? SEEDS_DEFAULT), ...chosen }
}

function notOneOf(name: string, found: string, accepted: object): SimulateCommand {
  const names = Object.keys(accepted).join(', ')
  return { kind: 'wrong', problem: `--${name}: found "${found}"; accepted: ${names}` }
}

function mutationLines(): string {
  const lines = Object.entries(WORLDS).map(
    ([name, { mutations }]) => `                   ${name}: ${Object.keys(mutations).join(', ')}`,
  )
  return lines.join('\n')
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        seeds: { type: 'string' },
        from: { type: 'string' },
        seed: { type: 'string' },
        mutation: { type: 'string' },
        world: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    })
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) }
  }
}

function findProblem(name: string, text: string | undefined): string | undefined {
  if (text === undefined || (/^[0-9]+$/.test(text) && Number(text) <= SEED_MAX)) return undefined
  return `--${name}: found "${text}"; accepted: a whole number from 0 on`
}
