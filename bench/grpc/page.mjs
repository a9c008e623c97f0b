/** Writes the results as a page of the documentation. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { markdownOf } from '../measured-page.mjs'

const FOLDER = fileURLToPath(new URL('../../docs/grpc', import.meta.url))

export function writePage(measured) {
  mkdirSync(FOLDER, { recursive: true })
  writeFileSync(`${FOLDER}/measured.md`, pageOf(measured))
}

function pageOf({ tables, targets, missing, command, machine, rounds, shape, note }) {
  const parts = tables.map((table) => `## ${table.title}\n\n${markdownOf(table)}`)
  return `# The rate limit service for Envoy, measured

Written by \`npm run bench -- ${command}\`; [the benchmarks](../../bench/README.md#grpc) explain how. Machine: ${machine}; a server has one core,
and h2load with ${shape} has another one, with Redis. Medians of ${rounds} alternating rounds, for the CPU with the least and the most of them.
${missing.length === 0 ? '' : `Not found, or not started, and not measured: ${missing.join(', ')}.\n`}${note === '' ? '' : `${note}\n`}
${parts.join('\n\n')}

## Targets

${markdownOf(targets)}
`
}
