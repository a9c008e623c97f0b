/** `npm run simulate`: runs thousands of seeds, or one seed with all its events. */
import { HELP, readArguments } from './arguments.js'
import { nowMs } from './clock.js'
import type { Parts } from './run.js'
import { runSeed, search, type SearchOptions, type SeedRun, shrinkSeedRun } from './seed-search.js'
import type { WorldName } from './worlds.js'

const VIOLATED = 1
const MISUSE = 2
/** The shortest time between two progress lines. */
const PROGRESS_MS = 1000

const print = (line: string) => process.stdout.write(`${line}\n`)

async function main(args: readonly string[]): Promise<number> {
  const command = readArguments(args)
  if (command.kind === 'help') {
    print(HELP)
    return 0
  }
  if (command.kind === 'wrong') {
    process.stderr.write(`${command.problem}\nSee npm run simulate -- --help\n`)
    return MISUSE
  }
  if (command.kind === 'one') return one(command.seed, command)
  return many(command)
}

interface Chosen {
  readonly world: WorldName
  readonly mutation: string | undefined
}

async function one(seed: number, { world, mutation }: Chosen): Promise<number> {
  const seedRun = await runSeed(seed, mutation, { world, log: print })
  const { violation, decisions, hash } = seedRun.run
  print(`seed ${seed}: ${decisions} decisions, log ${hash}`)
  if (violation === undefined) return 0
  await explain(seedRun, mutation)
  return VIOLATED
}

async function many(options: SearchOptions): Promise<number> {
  const { seeds, mutation } = options
  const startedMs = nowMs()
  let printedMs = startedMs
  let done = 0
  let decisions = 0
  const printProgress = () => {
    const perSecond = (done / Math.max(1, nowMs() - startedMs)) * 1000
    const share = `${done} of ${seeds} seeds`
    print(`${share}, ${perSecond.toFixed(1)} a second, ${decisions} decisions, all held`)
  }
  const seedRun = await search({
    ...options,
    onSeed: (_, run) => {
      done += 1
      decisions += run.decisions
      if (nowMs() - printedMs < PROGRESS_MS) return
      printedMs = nowMs()
      printProgress()
    },
  })
  if (seedRun === undefined) {
    printProgress()
    return 0
  }
  print(`seed ${seedRun.seed} failed, after ${done} that held`)
  await explain(seedRun, mutation)
  return VIOLATED
}

async function explain(seedRun: SeedRun, mutation: string | undefined): Promise<void> {
  print(`  ${seedRun.run.violation?.invariant}`)
  print(`  ${seedRun.run.violation?.message}`)
  print(`  at ${seedRun.run.violation?.atMs} ms; making it smaller`)
  const { scenario, run } = await shrinkSeedRun(seedRun, mutation)
  print(`smallest scenario found, which fails at ${run.violation?.atMs} ms:`)
  print(`  ${run.violation?.message}`)
  for (const line of linesOf(scenario.parts)) print(line)
  const bug = mutation === undefined ? '' : ` --mutation ${mutation}`
  const world = seedRun.world === 'fleet' ? '' : ` --world ${seedRun.world}`
  print(`replay: npm run simulate --${world} --seed ${seedRun.seed}${bug}`)
}

/** One JSON object per line: the settings, and then every event in order. */
function linesOf({ seed, settings, rules, nodes, traffic, faults }: Parts): readonly string[] {
  const lines = [
    { seed, settings },
    ...rules.map((rule) => ({ rule })),
    ...nodes.map((node) => ({ node })),
    ...faults.map((fault) => ({ fault })),
    ...traffic.map((call) => ({ call })),
  ]
  return lines.map((line) => JSON.stringify(line))
}

process.exitCode = await main(process.argv.slice(2))
