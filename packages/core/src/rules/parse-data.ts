/** Parses YAML or JSON text into a plain value, with the same guards as for rules. */
import { readDocument } from './document.js'
import { type Diagnostics, createDiagnostics, type Problem } from './diagnostics.js'
import { reportAt, DOCUMENT, itemsOf, readAnyMap, type Located, locateEntry } from './reader.js'

interface ParseDataOptions {
  /** Named in messages. */
  readonly file?: string | undefined
}

export interface ParsedData {
  /** A JSON value; undefined if there are problems. */
  readonly value?: unknown
  readonly problems: readonly Problem[]
}

/**
 * Never throws. The result has ordinary objects, in which `__proto__` is a key like any other.
 *
 * A number that would be written back differently (`007`, `1e3`, 20 digits) is refused: in rules it
 * may be meant as text, and a plain value could not keep the difference.
 */
export function parseData(text: string, { file }: ParseDataOptions = {}): ParsedData {
  // Skips a byte order mark, which some editors on Windows write.
  const withoutMark = text.replace(/^\ufeff/, '')
  const diagnostics = createDiagnostics({ file, strict: false, text: withoutMark })
  const value = dataOf(withoutMark, diagnostics)
  const { errors } = diagnostics.finish()
  return errors.length === 0 ? { value, problems: errors } : { problems: errors }
}

function dataOf(text: string, { report }: Diagnostics): unknown {
  const tree = readDocument(text)
  if (tree.root !== undefined) return valueOf({ node: tree.root, field: DOCUMENT, report })
  for (const problem of tree.problems) report({ field: DOCUMENT, ...problem })
  return undefined
}

function valueOf(located: Located): unknown {
  const { node, field, report } = located
  if (node.kind === 'list') return itemsOf({ node, field, report }).map(valueOf)
  if (node.kind === 'map') {
    const map = readAnyMap(located, 'a map')
    const entries = [...node.entries.values()]
    return (
      map &&
      Object.fromEntries(entries.map((entry) => [entry.key, valueOf(locateEntry(map, entry))]))
    )
  }
  if (node.kind !== 'scalar') return undefined
  const { value, source } = node
  if (typeof value !== 'number' || source === undefined || source === String(value)) return value
  const accepted = Number.isFinite(value) ? `${value}, or the same in quotes for text` : 'a number'
  return reportAt(located, 'bad-value', { accepted })
}
