/**
 * Parses one file of an envoyproxy/ratelimit configuration, or the tree of a resource that means
 * the same. Reports every problem at once, each with its place. What that program accepts without
 * effect, as a key at the wrong level, is a warning here: an unmodified directory must load.
 */
import {
  createDiagnostics,
  type Diagnostics,
  DOCUMENT,
  fieldName,
  itemsOf,
  type Located,
  type MapNode,
  type Node,
  type Problem,
  quote,
  readAnyMap,
  readChoice,
  readDocument,
  readList,
  readText,
  reportAt,
  type Tree,
} from '@sluice/core/config-reader'
import { show } from '@sluice/core'
import type { LimitUnit } from '../rate-limit-messages.js'
import {
  compositeOf,
  type DescriptorConfig,
  type DomainConfig,
  type LimitConfig,
  WILDCARD,
} from './domain-config.js'
import { readMetadata } from './read-metadata.js'
import { mergeMap, present, readFlag, readName, readUint32 } from './yaml-values.js'

/** A ConfigMap of Kubernetes has at most 1 MiB. */
export const TEXT_LENGTH_MAX = 16 * 1024 * 1024
/** Each level of descriptors is a list and a map; 32 are more than a request has entries. */
const LEVELS_MAX = 32
/** The document itself, and a limit with what it replaces, need the rest. */
export const TREE_BOUNDS = { depthMax: 2 * LEVELS_MAX + 4 }
/** More descriptors than a file of the greatest length has in practice; each takes about 1 KiB. */
const DESCRIPTORS_MAX = 100_000
/** The patterns of a level are tried one by one for each request. */
const WILDCARDS_MAX = 1000
/** Names of domains and limits are shown and are labels of metrics. */
const NAME_LENGTH_MAX = 256
/** As attributes of rules: a value in the configuration is compared with those of requests. */
const VALUE_LENGTH_MAX = 1024
const REPLACES_MAX = 100
const FILE_SHOWN_MAX = 256

const UNITS = [
  'second',
  'minute',
  'hour',
  'day',
  'week',
  'month',
  'year',
] as const satisfies readonly LimitUnit[]

const DOMAIN_KEYS = ['domain', 'descriptors']
const DESCRIPTOR_KEYS = [
  'key',
  'value',
  'rate_limit',
  'descriptors',
  'shadow_mode',
  'quota_mode',
  'detailed_metric',
  'value_to_metric',
  'share_threshold',
  'metadata',
]
const LIMIT_KEYS = ['unit', 'requests_per_unit', 'unlimited', 'name', 'replaces']
const REPLACES_KEYS = ['name']
/** The program accepts each of its keys anywhere, and ignores those at the wrong level. */
const ALL_KEYS = new Set([...DOMAIN_KEYS, ...DESCRIPTOR_KEYS, ...LIMIT_KEYS])

/** Control characters except tab and line ends: YAML does not have them. */
const CONTROL_CHARACTER = /(?![\t\n\r\u0085])\p{Cc}/u
/** What a decoder leaves in place of bytes that are not UTF-8. */
const REPLACEMENT_CHARACTER = '\ufffd'

/** What was read before: no domain twice, and no descriptor twice in a merged one. */
export interface SeenDomains {
  readonly mergeDomains: boolean
  /** By the name of the domain. */
  readonly domains: Map<string, SeenDomain>
}

interface SeenDomain {
  /** The file that has it first. */
  readonly file: string
  /** The file of each top descriptor, by key and value. */
  readonly descriptors: Map<string, string>
}

export function createSeenDomains(mergeDomains: boolean): SeenDomains {
  return { mergeDomains, domains: new Map() }
}

export interface ParseDomainOptions {
  /** The name of the file in messages, or what stands for it. */
  readonly file: string
  /** Shared by what is one configuration. @default none: the file is by itself */
  readonly seen?: SeenDomains | undefined
  /** The tree of the text, if it was read before. */
  readonly tree?: Tree | undefined
}

export interface ParsedDomainFile {
  /** Undefined if there are errors. */
  readonly config: DomainConfig | undefined
  readonly errors: readonly Problem[]
  readonly warnings: readonly Problem[]
}

/** Never throws. */
export function parseDomainFile(text: string, options: ParseDomainOptions): ParsedDomainFile {
  const plain = withoutMark(text)
  return parseRoot(plain, options, (errors) => readRoot(plain, options.tree, errors))
}

/** Parses a tree without text, so that its problems have no lines. */
export function parseDomainTree(node: Node, options: ParseDomainOptions): ParsedDomainFile {
  return parseRoot('', options, ({ report }) => ({ node, field: DOCUMENT, report }))
}

function parseRoot(
  text: string,
  options: ParseDomainOptions,
  readDocumentRoot: (errors: Diagnostics) => Located | undefined,
): ParsedDomainFile {
  const { file } = options
  const errors = createDiagnostics({ file, strict: false, text })
  const warnings = createDiagnostics({ file, strict: false, text })
  const root = readDocumentRoot(errors)
  const parser = new DomainParser(text, warnings, options)
  const config = root && parser.readDomain(root)
  const isUsable = errors.errorCount() === 0
  return {
    config: isUsable ? config : undefined,
    errors: errors.finish().errors,
    // The codes of problems have the severity that they have in rules: here these are no errors.
    warnings: isUsable ? warnings.finish().errors : [],
  }
}

/** Some editors begin a file with a byte order mark, which is not part of the first line. */
export function withoutMark(text: string): string {
  return text.replace(/^\ufeff/, '')
}

function readRoot(text: string, known: Tree | undefined, { report }: Diagnostics) {
  const at = findUnreadable(text)
  if (at !== undefined) {
    const found =
      text[at] === REPLACEMENT_CHARACTER ? 'bytes that are no UTF-8' : quote(text[at] ?? '')
    const accepted = 'text in UTF-8 without control characters'
    return report({ code: 'bad-yaml', at, field: DOCUMENT, found, why: 'no text', accepted })
  }
  if (text.length > TEXT_LENGTH_MAX) {
    const found = `${text.length} characters`
    const accepted = `up to ${TEXT_LENGTH_MAX} characters`
    return report({ code: 'too-large', at: 0, field: DOCUMENT, found, accepted })
  }
  const tree = known ?? readDocument(text, TREE_BOUNDS)
  if (tree.root === undefined) {
    for (const problem of tree.problems) report({ field: DOCUMENT, ...problem })
    return undefined
  }
  return { node: tree.root, field: DOCUMENT, report }
}

function findUnreadable(text: string): number | undefined {
  const control = text.search(CONTROL_CHARACTER)
  const replacement = text.indexOf(REPLACEMENT_CHARACTER)
  const found = [control, replacement].filter((at) => at !== -1)
  return found.length === 0 ? undefined : Math.min(...found)
}

interface Level {
  /** The path of the level for messages: `domain.key_value`. */
  readonly path: string
  /** For the top level: the domain, which other files may have too. */
  readonly seen: SeenDomain | undefined
}

class DomainParser {
  readonly #text: string
  readonly #warnings: Diagnostics
  readonly #file: string
  readonly #seen: SeenDomains
  #descriptors = 0

  constructor(text: string, warnings: Diagnostics, { file, seen }: ParseDomainOptions) {
    this.#text = text
    this.#warnings = warnings
    this.#file = file
    this.#seen = seen ?? createSeenDomains(false)
  }

  readDomain(root: Located): DomainConfig | undefined {
    const { node } = root
    // A file without content has no domain, as one with other fields.
    const isEmpty = node.kind === 'scalar' && node.value === null
    const map = isEmpty ? { ...root, node: EMPTY } : this.readFields(root, DOMAIN_KEYS)
    if (map === undefined) return undefined
    const domain = this.readDomainName(map)
    const seen = domain === undefined ? undefined : this.claim(domain)
    const list = present(map, 'descriptors')
    const level = { path: domain?.name ?? '', seen }
    const descriptors = list === undefined ? [] : this.readDescriptors(list, level)
    return domain && { domain: domain.name, descriptors }
  }

  private readDomainName(map: Located<MapNode>): NamedDomain | undefined {
    const located = present(map, 'domain')
    const accepted = 'the name of the domain'
    if (located === undefined) {
      return reportAt(map, 'missing-field', { field: 'domain', found: 'nothing', accepted })
    }
    const name = readName(located, this.#text, { accepted, most: NAME_LENGTH_MAX })
    if (name === '') return reportAt(located, 'empty', { accepted })
    return name === undefined ? undefined : { name, located }
  }

  /** Reports a domain that another file has, unless domains are merged. */
  private claim({ name, located }: NamedDomain): SeenDomain | undefined {
    const { mergeDomains, domains } = this.#seen
    const known = domains.get(name)
    if (known === undefined) {
      const seen = { file: this.#file, descriptors: new Map<string, string>() }
      domains.set(name, seen)
      return seen
    }
    if (mergeDomains) return known
    const accepted = `each domain once; ${show(known.file, FILE_SHOWN_MAX)} has it too. With merged domains it may be in several`
    return reportAt(located, 'duplicate-value', { accepted })
  }

  private readDescriptors(located: Located, { path, seen }: Level): readonly DescriptorConfig[] {
    const most = DESCRIPTORS_MAX
    const list = readList(located, { items: 'descriptors', most })
    if (list === undefined) return []
    const known = new Map<string, string>()
    const descriptors: DescriptorConfig[] = []
    let wildcards = 0
    for (const item of itemsOf(list)) {
      if (++this.#descriptors > most) {
        const found = `more than ${most} descriptors`
        reportAt(item, 'too-many', { found, accepted: `up to ${most} descriptors in a file` })
        break
      }
      const descriptor = this.readDescriptor(item, path)
      if (descriptor === undefined) continue
      const composite = compositeOf(descriptor)
      if (composite.includes(WILDCARD)) wildcards++
      this.checkDuplicate(item, { composite, path, known, seen })
      descriptors.push(descriptor)
    }
    if (wildcards > WILDCARDS_MAX) {
      const found = `${wildcards} descriptors with *`
      reportAt(located, 'too-many', { found, accepted: `up to ${WILDCARDS_MAX} in a list` })
    }
    return descriptors
  }

  private checkDuplicate(
    item: Located,
    { composite, path, known, seen }: Level & { composite: string; known: Map<string, string> },
  ): void {
    const here = known.get(composite)
    const there = seen?.descriptors.get(composite)
    if (here !== undefined || there !== undefined) {
      const first = here ?? `in ${show(there, FILE_SHOWN_MAX)}`
      const accepted = `each key with its value once, joined by _; the first is ${first}`
      reportAt(item, 'duplicate-value', { found: quote(`${path}.${composite}`), accepted })
      return
    }
    known.set(composite, item.field)
    seen?.descriptors.set(composite, this.#file)
  }

  private readDescriptor(located: Located, parent: string): DescriptorConfig | undefined {
    const map = this.readFields(located, DESCRIPTOR_KEYS)
    if (map === undefined) return undefined
    const text = this.#text
    const names = { accepted: 'a key, as requests have it', most: VALUE_LENGTH_MAX }
    const keyField = present(map, 'key')
    const key = keyField && readName(keyField, text, names)
    if (keyField === undefined || key === '') {
      const at = keyField?.node.at ?? map.node.at
      const field = `${map.field}.key`
      reportAt(map, keyField === undefined ? 'missing-field' : 'empty', {
        at,
        field,
        found: keyField === undefined ? 'nothing' : '""',
        accepted: names.accepted,
      })
    }
    const valueField = present(map, 'value')
    const value =
      valueField &&
      readName(valueField, text, {
        accepted: 'text, or no value for any',
        most: VALUE_LENGTH_MAX,
      })
    // The program does not tell an empty value from none.
    const own = { key: key ?? '', value: value === '' ? undefined : value }
    const flags = {
      isShadow: readFlag(map, 'shadow_mode'),
      isQuota: readFlag(map, 'quota_mode'),
      detailedMetric: readFlag(map, 'detailed_metric'),
      valueToMetric: readFlag(map, 'value_to_metric'),
      shareThreshold: readFlag(map, 'share_threshold'),
    }
    if (flags.shareThreshold) checkShareThreshold(map, compositeOf(own))
    const limitField = present(map, 'rate_limit')
    const limit = limitField && this.readLimit(limitField)
    const list = present(map, 'descriptors')
    const metadataField = present(map, 'metadata')
    const path = `${parent}.${compositeOf(own)}`
    const descriptors = list && this.readDescriptors(list, { path, seen: undefined })
    const metadata = metadataField && readMetadata(metadataField)
    if (key === undefined || key === '') return undefined
    return { ...own, limit, ...flags, metadata, descriptors: descriptors ?? [] }
  }

  private readLimit(located: Located): LimitConfig | undefined {
    const map = this.readFields(located, LIMIT_KEYS)
    if (map === undefined) return undefined
    const isUnlimited = readFlag(map, 'unlimited')
    const requestsField = present(map, 'requests_per_unit')
    const requestsPerUnit = requestsField && readUint32(requestsField)
    if (!isUnlimited && requestsField === undefined) {
      const accepted = 'a number; without it every request is over the limit'
      this.warn(map, map.node.at, 'no requests_per_unit', accepted)
    }
    const nameField = present(map, 'name')
    const most = NAME_LENGTH_MAX
    const name = nameField && readName(nameField, this.#text, { accepted: 'a name', most })
    const replacesField = present(map, 'replaces')
    const replaces = replacesField && this.readReplaces(replacesField, name ?? '')
    return {
      unit: this.readUnit(map, isUnlimited),
      requestsPerUnit: requestsPerUnit ?? 0,
      isUnlimited,
      name: name ?? '',
      replaces: replaces ?? [],
    }
  }

  private readUnit(map: Located<MapNode>, isUnlimited: boolean): LimitUnit | undefined {
    const located = present(map, 'unit')
    const accepted = UNITS.join(', ')
    if (isUnlimited) {
      if (located === undefined) return undefined
      const text = readText(located, { accepted: 'no unit', most: NAME_LENGTH_MAX })
      if (text === undefined) return undefined
      const known = 'no unit where unlimited is true'
      if (isUnit(text.toLowerCase())) return reportAt(located, 'bad-value', { accepted: known })
      this.warn(located, located.node.at, quote(text), known)
      return undefined
    }
    if (located === undefined) {
      const field = `${map.field}.unit`
      return reportAt(map, 'missing-field', { field, found: 'nothing', accepted })
    }
    const { node } = located
    const isText = node.kind === 'scalar' && typeof node.value === 'string'
    const lower = isText ? { ...node, value: String(node.value).toLowerCase() } : node
    return readChoice({ ...located, node: lower }, UNITS)
  }

  private readReplaces(located: Located, own: string): readonly string[] {
    const list = readList(located, { items: 'names', most: REPLACES_MAX })
    if (list === undefined) return []
    return itemsOf(list).flatMap((item) => {
      const map = this.readFields(item, REPLACES_KEYS)
      if (map === undefined) return []
      const accepted = 'the name of the limit of another descriptor'
      const nameField = present(map, 'name')
      if (nameField === undefined) {
        const field = `${map.field}.name`
        reportAt(map, 'missing-field', { field, found: 'nothing', accepted })
        return []
      }
      const name = readName(nameField, this.#text, { accepted, most: NAME_LENGTH_MAX })
      if (name === '') reportAt(nameField, 'empty', { accepted })
      else if (name === own) reportAt(nameField, 'bad-value', { accepted })
      return name === undefined || name === '' ? [] : [name]
    })
  }

  /** Reads a map with these keys; the other keys of the format are warnings. */
  private readFields(located: Located, keys: readonly string[]): Located<MapNode> | undefined {
    const map = readAnyMap(mergeMap(located), `a map with ${keys.join(', ')}`)
    if (map === undefined) return undefined
    for (const { at, key } of map.node.entries.values()) {
      if (keys.includes(key)) continue
      const field = fieldName(map, key)
      if (ALL_KEYS.has(key)) {
        this.#warnings.report({
          code: 'bad-key',
          at,
          field,
          found: 'a key that has no effect here',
          accepted: keys.join(', '),
        })
        continue
      }
      const near = { word: key, words: keys }
      const accepted = keys.join(', ')
      reportAt(map, 'unknown-key', { at, field, found: quote(key), accepted, near })
    }
    return map
  }

  private warn({ field }: Located, at: number, found: string, accepted: string): void {
    this.#warnings.report({ code: 'bad-key', at, field, found, accepted })
  }
}

const EMPTY: MapNode = { kind: 'map', at: 0, entries: new Map(), repeated: [], badKeys: [] }

function checkShareThreshold(map: Located<MapNode>, composite: string): void {
  const located = present(map, 'share_threshold')
  if (located === undefined || composite.includes(WILDCARD)) return
  const accepted = `true beside a value with *, such as files/*; ${quote(composite)} has none`
  reportAt(located, 'bad-value', { accepted })
}

function isUnit(text: string): boolean {
  return UNITS.some((unit) => unit === text)
}

interface NamedDomain {
  readonly name: string
  readonly located: Located
}
