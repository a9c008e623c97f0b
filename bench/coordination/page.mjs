/** Writes the results to the page: tables between markers, plots beside it, and all numbers. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { excessPlot, strandedPlot } from './plots.mjs'
import { tablesOf } from './tables.mjs'

const path = (name) => fileURLToPath(new URL(`../../${name}`, import.meta.url))
const PAGE = path('docs/guides/coordination.md')
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
  let page = readFileSync(PAGE, 'utf8')
  for (const [name, table] of Object.entries(tablesOf(measured))) {
    page = replace(page, name, markdownOf(table))
  }
  writeFileSync(PAGE, replace(page, 'machine', `${measured.machine}.`))
}

/** The text between `<!-- measured: name -->` and `<!-- end -->`. */
function replace(page, name, content) {
  const begin = `<!-- measured: ${name} -->\n`
  const from = page.indexOf(begin)
  const to = page.indexOf('<!-- end -->', from)
  if (from === -1 || to === -1) throw new Error(`${PAGE}: no place for ${name}`)
  return `${page.slice(0, from + begin.length)}\n${content}\n\n${page.slice(to)}`
}

/** Columns of numbers are aligned right, as printed. */
function markdownOf({ header, rows }) {
  const all = [header, ...rows]
  const widths = header.map((_, i) => Math.max(3, ...all.map((row) => row[i].length)))
  const isNumber = header.map((_, i) => rows.every((row) => /^[\d,.]/.test(row[i])))
  const lineOf = (row) =>
    `| ${row.map((cell, i) => (isNumber[i] ? cell.padStart(widths[i]) : cell.padEnd(widths[i]))).join(' | ')} |`
  const dashes = widths.map((width, i) =>
    isNumber[i] ? `${'-'.repeat(width - 1)}:` : '-'.repeat(width),
  )
  return [lineOf(header), `| ${dashes.join(' | ')} |`, ...rows.map(lineOf)].join('\n')
}
