/** Writes the results as a page of the documentation. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { markdownOf } from '../measured-page.mjs'

const FOLDER = fileURLToPath(new URL('../../docs/regions', import.meta.url))

export function writePage(measured) {
  mkdirSync(FOLDER, { recursive: true })
  writeFileSync(`${FOLDER}/measured.md`, pageOf(measured))
}

function pageOf({ tables, isQuick, command, machine, load }) {
  const parts = tables.map((table) => `## ${table.title}\n\n${markdownOf(table)}`)
  const form = isQuick ? ' This is the quick form: short runs, without the window of a minute.' : ''
  return `# Regions, measured

Written by \`npm run bench -- ${command}\`; [the benchmarks](../../bench/README.md#regions) explain how. Machine: ${machine}; ${load}.${form}
Three regions with a Redis and two nodes each, on one machine; "one way" is the delay of every link, set by a proxy. Bounds are promises, and the
command exits 1 beyond one; targets are times on this machine. What the modes mean is in [the guide](../guides/regions.md).

${parts.join('\n\n')}
`
}
