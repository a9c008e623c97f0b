/**
 * What three regions admit beyond a limit, how soon they know of each other, and what that costs,
 * beside the bounds and beside `MultiRegionRatelimit` of @upstash/ratelimit on the same servers
 * and delays. Exits 1 where a bound was not kept.
 */
import { cpus, loadavg } from 'node:os'
import { printTable } from '../report.mjs'
import { measureCells, refusalOfSmallBurst } from './cells.mjs'
import { measureCosts } from './costs.mjs'
import { writePage } from './page.mjs'
import { measurePartition } from './partition.mjs'
import { startWorld } from './setting.mjs'
import { brokenBounds, tablesOf, targetsOf } from './tables.mjs'

const DELAYS_MS = [10, 40, 75]
const isQuick = process.argv.includes('--quick')
const LONG_S = isQuick ? 10 : 60
const log = (line) => process.stderr.write(`${line}\n`)

const measured = await measure()
const tables = [...tablesOf(measured), targetsOf(measured)]
for (const { title, header, rows } of tables) {
  console.log(`${title}\n`)
  printTable(header, rows)
}
const problems = brokenBounds(measured)
for (const problem of problems) console.log(`NOT within its bound: ${problem}`)
console.log(problems.length === 0 ? 'Everything is within its bound.\n' : '')
if (problems.length > 0) process.exitCode = 1
else if (process.argv.includes('--write')) {
  const [cpu] = cpus()
  const machine = `${cpus().length} x ${cpu?.model.trim()}, Node ${process.version}`
  const command = process.argv.slice(2).join(' ')
  writePage({ tables, isQuick, command, machine, load: measured.load })
}
process.exit()

async function measure() {
  const before = loadavg()[0] ?? 0
  const world = await startWorld()
  const options = { delays: DELAYS_MS, isQuick, log }
  try {
    const cells = await measureCells(world, { ...options, bucketSeconds: LONG_S })
    const partition = await measurePartition(world, { seconds: LONG_S, log })
    const costs = await measureCosts(world, options)
    const load = `the load before was ${before.toFixed(1)} for ${cpus().length} cores`
    return { cells, partition, costs, refusal: await refusalOfSmallBurst(), load }
  } finally {
    await world.stop()
  }
}
