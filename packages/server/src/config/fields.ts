/**
 * Reads maps of the configuration and where their values came from. The reader of rules shows
 * whatever it finds; a configuration contains secrets, so here a text that may be one is described
 * by its length.
 */
import {
  reportAt,
  fieldName,
  fieldOf,
  type MapNode,
  readMap,
  type Located,
} from '@sluice/core/config-reader'

/**
 * Keys and tokens have at least this many characters, and no field name has as many. A text of this
 * length in place of a field, a map or one of a few words may be a misplaced secret.
 */
export const SECRET_LENGTH_MIN = 16

const EMPTY: MapNode = { kind: 'map', at: -1, entries: new Map(), repeated: [], badKeys: [] }

/** A value with its place, for problems that concern more than one value. */
export interface ExplicitValue<T> {
  /** Undefined if it is invalid, which was reported. */
  readonly value: T | undefined
  readonly located: Located
}

/** The effective value: from the environment, otherwise from the file, otherwise the default. */
export interface Setting<T> {
  readonly value: T
  /** Undefined: the default. */
  readonly located: Located | undefined
  /** Whether it could be parsed; if not, that was reported, and nothing else is reported of it. */
  readonly isRead: boolean
}

export function readExplicit<T>(
  map: Located<MapNode>,
  key: string,
  read: (located: Located) => T | undefined,
): ExplicitValue<T> | undefined {
  const located = fieldOf(map, key)
  return located === undefined ? undefined : { value: read(located), located }
}

/** Both are parsed first, so that an override hides no mistake in the file. */
export function resolveSetting<T>(
  override: ExplicitValue<T> | undefined,
  fromFile: ExplicitValue<T> | undefined,
  fallback: T,
): Setting<T> {
  const chosen = override ?? fromFile
  if (chosen === undefined) return { value: fallback, located: undefined, isRead: true }
  const { value, located } = chosen
  return { value: value ?? fallback, located, isRead: value !== undefined }
}

/** A map with exactly these accepted keys. */
export function readFields(
  located: Located,
  keys: readonly string[],
  /** Which unknown keys may be shown. */
  isHarmless = (key: string) => key.length < SECRET_LENGTH_MIN,
): Located<MapNode> | undefined {
  const { node, field, report } = located
  if (node.kind !== 'map') return readMap(hideLongText(located), keys)
  const isShown = ({ key }: { readonly key: string }) => keys.includes(key) || isHarmless(key)
  const hidden = [...node.entries.values(), ...node.repeated].filter((entry) => !isShown(entry))
  for (const { at, key } of hidden) {
    const found = `of ${key.length} characters`
    reportAt(located, 'unknown-key', { at, found, accepted: keys.join(', ') })
  }
  const entries = new Map([...node.entries].filter(([, entry]) => isShown(entry)))
  const shown: MapNode = { ...node, entries, repeated: node.repeated.filter(isShown) }
  return readMap({ node: shown, field, report }, keys)
}

/**
 * Reads a map inside the map; an absent one, or a value of another type, is read as an empty map.
 * `renamed` maps keys of earlier releases to their new names, which the error then states.
 */
export function readSection(
  map: Located<MapNode>,
  key: string,
  keys: readonly string[],
  renamed: Readonly<Record<string, string>> = {},
): Located<MapNode> {
  const located = fieldOf(map, key)
  const section = located && readFields(refuseRenamed(located, renamed), keys)
  return section ?? { node: EMPTY, field: fieldName(map, key), report: map.report }
}

/** Reports keys that were renamed, and returns the map without them. */
function refuseRenamed(located: Located, renamed: Readonly<Record<string, string>>): Located {
  const { node, report } = located
  if (node.kind !== 'map') return located
  const entries = new Map(node.entries)
  for (const [key, accepted] of Object.entries(renamed)) {
    const entry = entries.get(key)
    if (entry === undefined) continue
    entries.delete(key)
    const field = fieldName(located, key)
    report({ code: 'unknown-key', at: entry.at, field, found: `"${key}"`, accepted })
  }
  return { ...located, node: { ...node, entries } }
}

export function emptyMap(field: string, report: Located['report']): Located<MapNode> {
  return { node: EMPTY, field, report }
}

/** The same location, whose text is hidden if it may be a secret. */
export function hideLongText(located: Located): Located {
  const length = lengthOf(located)
  if (length < SECRET_LENGTH_MIN) return located
  return hideText(located, (code) =>
    code === 'wrong-type' ? `text of ${length} characters` : `of ${length} characters, not shown`,
  )
}

/** The number of characters; 0 for a list or a map. */
export function lengthOf({ node }: Located): number {
  if (node.kind !== 'scalar') return 0
  return (node.source ?? String(node.value)).length
}

/** The same location with this description instead of its text. */
export function hideText(
  { node, field, report }: Located,
  found: string | ((code: string) => string),
): Located {
  return {
    node,
    field,
    report: (finding) => {
      // The length reveals nothing.
      const isOurs = finding.field === field && finding.code !== 'too-long'
      if (!isOurs) return report(finding)
      const shown = typeof found === 'string' ? found : found(finding.code)
      return report({ ...finding, found: shown })
    },
  }
}

/** How much of a value a problem shows. */
const FOUND_LENGTH_MAX = 64

/**
 * Shows the end of a text about a URL: the problem is there, and the first characters say little.
 */
export function lastPart(found: string): string {
  if (found.length <= FOUND_LENGTH_MAX) return found
  return `…${found.slice(1 - FOUND_LENGTH_MAX).replace(/^\S{0,12} /, ' ')}`
}
