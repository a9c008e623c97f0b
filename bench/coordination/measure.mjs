/**
 * What nodes that share a counter without asking the store for each call admit, hold and cost: on
 * real processes and a real Redis, beside what is promised. Exits 1 where a bound was not kept.
 *
 * `--write` puts it on the page, `--json <file>` into a file; `--from <file>` shows what an earlier
 * run found.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { printTable } from '../report.mjs'
import { describePlaces, stopAll } from '../redis/processes.mjs'
import { measureClocks } from './clocks.mjs'
import { measureHotKey, problemsOfHotKey } from './hot-key.mjs'
import { measureLoads, measureTextbook } from './loads.mjs'
import { writePage } from './page.mjs'
import { tablesOf, targetsTable } from './tables.mjs'

const from = valueOf('--from')
const measured = from === undefined ? await measure() : JSON.parse(readFileSync(from, 'utf8'))
for (const { title, header, rows } of [
  ...Object.values(tablesOf(measured)),
  targetsTable(measured.hotKey),
]) {
  console.log(`${title}\n`)
  printTable(header, rows)
}

const json = valueOf('--json')
if (json !== undefined) writeFileSync(json, `${JSON.stringify(measured, null, 1)}\n`)
const problems = problemsOf(measured)
for (const problem of problems) console.log(problem)
console.log(problems.length === 0 ? 'Every row is within its bound.\n' : '')
if (problems.length > 0) process.exitCode = 1
else if (process.argv.includes('--write')) writePage(measured)

async function measure() {
  try {
    const hotKey = await measureHotKey()
    const textbook = await measureTextbook()
    const clocks = await measureClocks()
    const loads = await measureLoads()
    return { machine: describeMachine(), loads, textbook, clocks, hotKey }
  } finally {
    await stopAll()
  }
}

function describeMachine() {
  const [cpu] = cpus()
  return `${cpus().length} x ${cpu?.model.trim()}, Node ${process.version}; hot keys ${describePlaces()}`
}

/** Every row that violates a bound, with the violation. */
function problemsOf({ loads, textbook, clocks, hotKey }) {
  const rows = [...loads, textbook, ...clocks].flatMap(({ problems: found, ...row }) =>
    found.map((problem) => `NOT within the bound: ${problem}: ${JSON.stringify(row)}`),
  )
  return [...rows, ...problemsOfHotKey(hotKey)]
}

function valueOf(option) {
  const place = process.argv.indexOf(option)
  return place === -1 ? undefined : process.argv[place + 1]
}
