/** `npm run simulate`: seeds by the thousand, or one of them with all that happens in it. */
import { HELP, readArguments } from './arguments.js'
import { nowMs } from './clock.js'
import type { PlantedName } from './planted.js'
import type { Scenario } from './scenario.js'
import { type Found, runSeed, search, shrinkFound } from './search.js'

const FOUND = 1
const MISUSE = 2
/** A line at most so often. */
const PROGRESS_MS = 1000

const print = (line: string) => process.stdout.write(`${line}\n`)

async function main(args: readonly string[]): Promise<number> {
  const wanted = readArguments(args)
  if (wanted.kind === 'help') {
    print(HELP)
    return 0
  }
  if (wanted.kind === 'wrong') {
    process.stderr.write(`${wanted.problem}\nSee npm run simulate -- --help\n`)
    return MISUSE
  }
  if (wanted.kind === 'one') return one(wanted.seed, wanted.planted)
  return many(wanted.from, wanted.seeds, wanted.planted)
}

async function one(seed: number, planted: PlantedName | undefined): Promise<number> {
  const found = await runSeed(seed, planted, { log: print })
  const { violation, decisions, hash } = found.run
  print(`seed ${seed}: ${decisions} decisions, log ${hash}`)
  if (violation === undefined) return 0
  await explain(found, planted)
  return FOUND
}

async function many(from: number, seeds: number, planted?: PlantedName): Promise<number> {
  const startedMs = nowMs()
  let toldMs = startedMs
  let done = 0
  let decisions = 0
  const tell = () => {
    const perSecond = (done / Math.max(1, nowMs() - startedMs)) * 1000
    const share = `${done} of ${seeds} seeds`
    print(`${share}, ${perSecond.toFixed(1)} a second, ${decisions} decisions, all held`)
  }
  const found = await search({
    from,
    seeds,
    planted,
    onSeed: (_, run) => {
      done += 1
      decisions += run.decisions
      if (nowMs() - toldMs < PROGRESS_MS) return
      toldMs = nowMs()
      tell()
    },
  })
  if (found === undefined) {
    tell()
    return 0
  }
  print(`seed ${found.seed} failed, after ${done} that held`)
  await explain(found, planted)
  return FOUND
}

async function explain(found: Found, planted: PlantedName | undefined): Promise<void> {
  print(`  ${found.run.violation?.invariant}`)
  print(`  ${found.run.violation?.message}`)
  print(`  at ${found.run.violation?.atMs} ms; making it smaller`)
  const { scenario, run } = await shrinkFound(found, planted)
  print(`smallest scenario found, which fails at ${run.violation?.atMs} ms:`)
  print(`  ${run.violation?.message}`)
  for (const line of linesOf(scenario)) print(line)
  const bug = planted === undefined ? '' : ` --planted ${planted}`
  print(`replay: npm run simulate -- --seed ${found.seed}${bug}`)
}

/** One JSON object a line: settings, and then everything in its order. */
function linesOf({ seed, settings, rules, nodes, traffic, faults }: Scenario): readonly string[] {
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
