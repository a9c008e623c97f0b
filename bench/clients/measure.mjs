/**
 * How clients behave at a limit, against a real gateway on the loopback: the paced fetch of
 * `@sluice/client` beside plain fetch, ky and got. `--quick` measures one window instead of three;
 * `--write` writes tables and plots to `docs/clients`.
 */
import { cpus } from 'node:os'
import { describePlaces, pin, stopAll } from '../gateway/processes.mjs'
import { printTable } from '../report.mjs'
import { startGateway } from './gateway.mjs'
import { HERD_RULES, HERDS, measureHerd } from './herd.mjs'
import { writePage } from './page.mjs'
import { ALGORITHMS, measureShares, rulesOf } from './shares.mjs'

const TARGETS = { used: 0.95, refused: 0.01, peak: 3 }
const isQuick = process.argv.includes('--quick')
const setting = { max: 300, windowS: 10, windows: isQuick ? 1 : 3 }

pin(process.pid, 'load')
console.log(`${describePlaces()}; limit: ${setting.max} in ${setting.windowS} s\n`)

const percent = (share) => `${(share * 100).toFixed(1)} %`

const gateway = await startGateway(rulesOf(setting))
const rows = await measureShares(gateway, setting, (subject) => console.error(`${subject}: done`))
await stopAll()
const shares = {
  header: ['client', ...ALGORITHMS.flatMap(({ name }) => [`${name}: used`, '429'])],
  rows: [...new Set(rows.map(({ subject }) => subject))].map((subject) => [
    subject,
    ...rows
      .filter((row) => row.subject === subject)
      .flatMap(({ used, refused }) => [percent(used), percent(refused)]),
  ]),
}
printTable(shares.header, shares.rows)
for (const { subject, algorithm, used, refused } of rows) {
  if (!subject.startsWith('Sluice')) continue
  if (used < TARGETS.used || refused > TARGETS.refused) {
    const found = `${percent(used)} used, ${percent(refused)} refused`
    console.log(`target missed: ${algorithm}: ${found}; wanted: 95 % and 1 %`)
  }
}

const herds = []
for (const herd of HERDS) {
  const own = await startGateway(HERD_RULES, { jitter: herd.jitter })
  herds.push(await measureHerd(own, herd))
  await stopAll()
}
const herd = {
  header: ['clients', 'peak in 50 ms', 'mean', 'ratio', 'of 1,000 in that second'],
  rows: herds.map(({ name, peak, mean, within }) => [
    name,
    String(peak),
    mean.toFixed(1),
    (peak / mean).toFixed(1),
    String(within),
  ]),
}
printTable(herd.header, herd.rows)
const last = herds.at(-1)
if (last.peak > TARGETS.peak * last.mean) {
  console.log(`target missed: herd: peak ${last.peak}; wanted: 3 times ${last.mean.toFixed(1)}`)
}
if (process.argv.includes('--write')) {
  const [cpu] = cpus()
  const machine = `${cpus().length} x ${cpu?.model.trim()}, Node ${process.version}`
  writePage({ rows, herds, tables: { shares, herd }, machine })
}
// Clients that still wait for their time would keep the process.
process.exit(0)
