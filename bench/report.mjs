/** The output of every benchmark: the machine, medians, and one table. */
import { readFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'

export function printMachine() {
  const [cpu] = cpus()
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  console.log(`\n${cpus().length} x ${cpu?.model.trim()}, ${memory}, Node ${process.version}`)
  const { dependencies } = JSON.parse(
    readFileSync(new URL('./package.json', import.meta.url), 'utf8'),
  )
  const peers = Object.entries(dependencies).map(([name, version]) => `${name} ${version}`)
  console.log(`peers: ${peers.join(', ')}\n`)
}

export function median(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]
}

/** Rows of text in columns; the first is aligned left, the others right. */
export function printTable(header, rows) {
  const all = [header, ...rows].map((row) => row.map(String))
  const widths = header.map((_, column) => Math.max(...all.map((row) => row[column].length)))
  for (const row of all) {
    const cells = row.map((cell, column) =>
      column === 0 ? cell.padEnd(widths[column]) : cell.padStart(widths[column]),
    )
    console.log(cells.join('  '))
  }
  console.log()
}
