/** A YAML or JSON text as a plain value, read with the same guards as rules are. */
import { readDocument } from './document.js'
import { type Diagnostics, createDiagnostics, type Problem } from './diagnostics.js'
import { reportAt, DOCUMENT, itemsOf, readAnyMap, type Located, locateEntry } from './reader.js'

interface ParseDataOptions {
  /** Named in messages. */
  readonly file?: string | undefined
}

export interface ParsedData {
  /** What JSON could say; undefined if there are problems. */
  readonly value?: unknown
  readonly problems: readonly Problem[]
}

/**
 * Never throws. Objects made of it are ordinary ones in which `__proto__` is a key like any other.
 *
 * A number whose text is not how it is written again (`007`, `1e3`, 20 digits) is refused: in
 * rules it may stand for text, and as a value nobody could tell.
 */
export function parseData(text: string, { file }: ParseDataOptions = {}): ParsedData {
  // Editors of one system begin a file with a mark that is no part of the first line.
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
