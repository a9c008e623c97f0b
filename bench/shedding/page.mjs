/** Writes the results as a page of the documentation, with its plots. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { markdownOf } from '../measured-page.mjs'
import { sheddingPlot } from './plots.mjs'

const FOLDER = fileURLToPath(new URL('../../docs/shedding', import.meta.url))
const fileOf = ({ half }) => `${half.name.replace(' ', '-')}.svg`

/** `measured`: a result with its `tables` for each half. */
export function writePage(measured, machine) {
  mkdirSync(FOLDER, { recursive: true })
  for (const result of measured) writeFileSync(`${FOLDER}/${fileOf(result)}`, sheddingPlot(result))
  writeFileSync(`${FOLDER}/measured.md`, pageOf(measured, machine))
}

function pageOf(measured, machine) {
  return `# Overload, measured

Written by \`npm run bench -- shedding --write\`; [the benchmarks](../../bench/README.md#shedding) explain how. Machine: ${machine}. A call is
served if it is answered within a second; goodput is what is served in a second, of what can be.

${measured.map(sectionOf).join('\n')}`
}

function sectionOf(result) {
  const { half, capacity, tables, summary } = result
  const title = `${half.about[0].toUpperCase()}${half.about.slice(1)}`
  return `## ${title}

${Math.round(capacity)} calls a second are its capacity.

${tables.map(markdownOf).join('\n\n')}

${summary}

![Critical calls served and goodput by load](${fileOf(result)})
`
}
