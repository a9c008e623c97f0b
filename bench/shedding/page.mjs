/** Writes the results of each half as a page of the documentation, with its plot. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { markdownOf } from '../measured-page.mjs'
import { sheddingPlot } from './plots.mjs'

const FOLDER = fileURLToPath(new URL('../../docs/shedding', import.meta.url))
const nameOf = ({ half }) => half.name.replace(' ', '-')

/** `measured`: a result with its `tables` for each half; `how`: the command and the machine. */
export function writePages(measured, how) {
  mkdirSync(FOLDER, { recursive: true })
  for (const result of measured) {
    writeFileSync(`${FOLDER}/${nameOf(result)}.svg`, sheddingPlot(result))
    writeFileSync(`${FOLDER}/${nameOf(result)}.md`, pageOf(result, how))
  }
}

function pageOf(result, { command, machine }) {
  const { half, capacity, tables, summary, paused } = result
  return `# Overload, measured: ${half.about}

Written by \`npm run bench -- ${command}\`; [the benchmarks](../../bench/README.md#shedding) explain how. Machine: ${machine}. A call is
served if it is answered within a second; goodput is what is served in a second, of the capacity of ${Math.round(capacity)} calls a second.

${tables.map(markdownOf).join('\n\n')}

${summary}
${paused > 0 ? `\nThe process was kept from running for up to ${(paused * 100).toFixed(1)} % of a run; that time is left out.\n` : ''}
![Critical calls served and goodput by load](${nameOf(result)}.svg)
`
}
