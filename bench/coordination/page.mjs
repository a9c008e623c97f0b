/** Writes the results to the page: tables between markers, plots beside it, and all numbers. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { writeMeasured } from '../measured-page.mjs'
import { excessPlot, strandedPlot } from './plots.mjs'
import { tablesOf } from './tables.mjs'

const path = (name) => fileURLToPath(new URL(`../../${name}`, import.meta.url))
const PLOTS = path('docs/coordination')
const RESULTS = path('bench/results')

export function writePage(measured) {
  for (const folder of [PLOTS, RESULTS]) mkdirSync(folder, { recursive: true })
  const of = (coordination) => measured.loads.filter((row) => row.coordination === coordination)
  const files = {
    'leased-excess.svg': excessPlot(of('leased'), 'leased'),
    'leased-stranded.svg': strandedPlot(of('leased')),
    'local-excess.svg': excessPlot(of('local'), 'local'),
  }
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(`${PLOTS}/${name}`, content)
  }
  writeFileSync(`${RESULTS}/coordination.json`, `${JSON.stringify(measured, null, 1)}\n`)
  writeMeasured('docs/guides/coordination.md', tablesOf(measured), measured.machine)
}
