/** One line of CSV (RFC 4180), without line breaks inside of quotes. */

/** Undefined if quotes do not end, or have text beside them. */
export function readCsvLine(line: string): readonly string[] | undefined {
  const fields: string[] = []
  let at = 0
  for (;;) {
    if (line[at] === '"') {
      const quoted = /"((?:[^"]|"")*)"(?=,|$)/y
      quoted.lastIndex = at
      const match = quoted.exec(line)
      if (match === null) return undefined
      fields.push((match[1] ?? '').replaceAll('""', '"'))
      at = quoted.lastIndex
    } else {
      const comma = line.indexOf(',', at)
      const end = comma === -1 ? line.length : comma
      const field = line.slice(at, end)
      if (field.includes('"')) return undefined
      fields.push(field.trim())
      at = end
    }
    if (at >= line.length) return fields
    at++
    if (at === line.length) return [...fields, '']
  }
}
