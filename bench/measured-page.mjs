/** Writes tables of a benchmark to a page, between `<!-- measured: name -->` and `<!-- end -->`. */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** `page` is relative to the root; `machine` replaces the part of that name. */
export function writeMeasured(page, tables, machine) {
  const path = fileURLToPath(new URL(`../${page}`, import.meta.url))
  let content = readFileSync(path, 'utf8')
  for (const [name, table] of Object.entries(tables)) {
    content = replace(content, name, markdownOf(table), page)
  }
  writeFileSync(path, replace(content, 'machine', `${machine}.`, page))
}

function replace(content, name, part, page) {
  const begin = `<!-- measured: ${name} -->\n`
  const from = content.indexOf(begin)
  const to = content.indexOf('<!-- end -->', from)
  if (from === -1 || to === -1) throw new Error(`${page}: no place for ${name}`)
  return `${content.slice(0, from + begin.length)}\n${part}\n\n${content.slice(to)}`
}

/** Columns of numbers are aligned right, as printed. */
export function markdownOf({ header, rows }) {
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
