/** Writes the results as a page of the documentation, with its plots. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { markdownOf } from '../measured-page.mjs'
import { herdPlot, sharesPlot } from './plots.mjs'
import { ALGORITHMS } from './shares.mjs'

const FOLDER = fileURLToPath(new URL('../../docs/clients', import.meta.url))

export function writePage({ rows, herds, tables, machine }) {
  mkdirSync(FOLDER, { recursive: true })
  writeFileSync(`${FOLDER}/shares.svg`, sharesPlot(rows, ALGORITHMS))
  writeFileSync(`${FOLDER}/herd.svg`, herdPlot(herds))
  writeFileSync(`${FOLDER}/measured.md`, pageOf(tables, machine))
}

function pageOf({ shares, herd }, machine) {
  return `# Clients at a limit, measured

Written by \`npm run bench -- clients --write\`; [the benchmarks](../../bench/README.md#clients) explain how. Machine: ${machine}.

## Ten clients that want three times the limit

The share of what the limit allows that was used, and the share of answers that were 429. The gateway's metrics are
read at the end of the last window; where that was late, calls of the next window are in it, and a share exceeds 100 %.

${markdownOf(shares)}

![Shares of use and of refusals for each client](shares.svg)

## A thundering herd

A thousand clients are refused shortly before a window ends: how many of them send again in each 50 ms of the second in which they return.

${markdownOf(herd)}

![Histograms of the requests of returning clients](herd.svg)
`
}
