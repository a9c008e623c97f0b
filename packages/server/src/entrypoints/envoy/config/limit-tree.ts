/**
 * Finds the limit of a descriptor, as envoyproxy/ratelimit does: one entry after the other, from
 * level to level, without a way back. At a level counts first the key with exactly this value, then
 * the first pattern that matches, then the key alone; and a limit counts only at the last entry.
 */
import type { JsonObject } from '../../../lib/json-map.js'
import type { DescriptorEntry } from '../rate-limit-messages.js'
import {
  compositeOf,
  type DescriptorConfig,
  type DomainConfig,
  type LimitConfig,
  WILDCARD,
} from './domain-config.js'
import { compilePattern, matchesPattern, type ValuePattern } from './value-pattern.js'
import { sanitizeStat } from './stat-name.js'

/** A descriptor of the configuration that has a limit. */
export interface LimitNode {
  /**
   * The path of keys and values: `domain.key1_value1.subkey1`. Unique in the domain: where two
   * descriptors have the same path, as the key `a.b` and the key `b` below `a`, the second ends
   * with `~2`.
   */
  readonly path: string
  /** The keys of its path, as the configuration has them. */
  readonly keys: readonly string[]
  readonly limit: LimitConfig
  readonly isShadow: boolean
  readonly isQuota: boolean
  readonly detailedMetric: boolean
  readonly valueToMetric: boolean
  readonly metadata: JsonObject | undefined
}

export interface SelectedLimit {
  readonly node: LimitNode
  /**
   * The keys and values in turn that name the counter: those of the request, with the pattern in
   * place of the value where all that match share one counter.
   */
  readonly counter: readonly string[]
  /** The path of the metrics of this request, with the values that the configuration asks for. */
  readonly metricPath: string
}

/** A descriptor of the configuration. */
interface TreeNode {
  readonly key: string
  /** Key and value joined by `_`, or the key alone. */
  readonly composite: string
  /** Undefined for the root. */
  readonly parent: TreeNode | undefined
  readonly pattern: ValuePattern | undefined
  readonly sharesThreshold: boolean
  readonly valueToMetric: boolean
  /** Whether a pattern is on the way to it, which other keys than its own may match too. */
  readonly hasPatterns: boolean
  /** Whether the path of metrics, or the counter, has more of the request or less of it. */
  readonly hasDynamicPath: boolean
  /** The same, or `detailed_metric` here. */
  readonly isDynamic: boolean
  /** The path for metrics where it does not depend on the request. */
  readonly metricPath: string
  readonly limit: LimitNode | undefined
  /** By composite. Undefined: the walk ends here. */
  readonly children: Map<string, TreeNode> | undefined
  /** Those of the children that have a pattern, in the order of the configuration. */
  readonly patterns: TreeNode[]
}

/** A class, not an object literal, as it lives while a call waits. */
class Selection implements SelectedLimit {
  readonly node: LimitNode
  readonly counter: readonly string[]
  readonly metricPath: string

  constructor(node: LimitNode, counter: readonly string[], metricPath: string) {
    this.node = node
    this.counter = counter
    this.metricPath = metricPath
  }
}

export class LimitTree {
  /** All limits, in the order of the configuration. */
  readonly nodes: readonly LimitNode[]
  readonly #domain: string
  readonly #root: TreeNode

  constructor({ domain, descriptors }: DomainConfig) {
    this.#domain = domain
    const builder = new TreeBuilder()
    this.#root = builder.build(domain, descriptors)
    this.nodes = builder.nodes
  }

  /** Returns undefined if the descriptor has no limit. */
  select(entries: readonly DescriptorEntry[]): SelectedLimit | undefined {
    let node = this.#root
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i]
      const next = entry && findChild(node, entry)
      if (next === undefined) return undefined
      node = next
    }
    const { limit } = node
    if (limit === undefined) return undefined
    if (node.isDynamic || (node.hasPatterns && !hasItsKeys(node, entries))) {
      return this.selectDynamic(node, limit, entries)
    }
    return new Selection(limit, namesOf(entries), node.metricPath)
  }

  /** Whether the configuration names a descriptor, to its last entry, without a limit. */
  isExempt(entries: readonly DescriptorEntry[]): boolean {
    let node = this.#root
    for (const entry of entries) {
      const next = findChild(node, entry)
      if (next === undefined) return false
      node = next
    }
    return node.limit === undefined && node.children === undefined
  }

  /** Walks the path once more, for what depends on how each level was matched. */
  private selectDynamic(
    node: TreeNode,
    limit: LimitNode,
    entries: readonly DescriptorEntry[],
  ): SelectedLimit {
    const counter: string[] = []
    let path = this.#domain
    let detailed = this.#domain
    let isShared = false
    const levels = levelsOf(node)
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i]
      const level = levels[i]
      if (entry === undefined || level === undefined) continue
      const { key, value } = entry
      const kind = matchKind(level, entry)
      const pattern = kind === 'pattern' ? withoutKey(level.composite, key) : undefined
      const shared = level.sharesThreshold ? pattern : undefined
      if (shared !== undefined) isShared = true
      counter.push(key, shared ?? value)
      const isNamed = kind === 'exact' || level.valueToMetric
      path += `.${statOf(key, shared ?? (isNamed ? value : (pattern ?? '')))}`
      detailed += `.${shared === undefined ? `${key}_${value}` : statOf(key, shared)}`
    }
    if (!limit.detailedMetric) return new Selection(limit, counter, sanitizeStat(path))
    // With a shared counter an empty value leaves no trace; without one it leaves its `_`.
    const full = isShared ? pathOf(this.#domain, counter) : detailed
    return new Selection(limit, counter, sanitizeStat(full))
  }
}

type MatchKind = 'exact' | 'pattern' | 'key'

/** How a node was found; it was found, so a pattern that matches is how. */
function matchKind({ composite, pattern }: TreeNode, { key, value }: DescriptorEntry): MatchKind {
  const wanted = `${key}_${value}`
  if (composite === wanted) return 'exact'
  return pattern !== undefined && matchesPattern(pattern, wanted) ? 'pattern' : 'key'
}

function findChild({ children, patterns }: TreeNode, entry: DescriptorEntry): TreeNode | undefined {
  if (children === undefined) return undefined
  const { key, value } = entry
  const wanted = `${key}_${value}`
  const exact = children.get(wanted)
  if (exact !== undefined) return exact
  for (let i = 0; i < patterns.length; i++) {
    const node = patterns[i]
    if (node?.pattern !== undefined && matchesPattern(node.pattern, wanted)) return node
  }
  return children.get(key)
}

/** Whether each entry has the key of its descriptor, so that key and value are split as there. */
function hasItsKeys(node: TreeNode, entries: readonly DescriptorEntry[]): boolean {
  let i = entries.length - 1
  for (let at = node; at.parent !== undefined; at = at.parent) {
    if (entries[i]?.key !== at.key) return false
    i--
  }
  return true
}

/** The nodes on the way to this one, without the root. */
function levelsOf(node: TreeNode): readonly TreeNode[] {
  const levels: TreeNode[] = []
  for (let at = node; at.parent !== undefined; at = at.parent) levels.push(at)
  return levels.reverse()
}

function namesOf(entries: readonly DescriptorEntry[]): readonly string[] {
  const first = entries[0]
  // Pushing to an empty list allocates seventeen places.
  if (entries.length === 1 && first !== undefined) return [first.key, first.value]
  const names: string[] = []
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i]
    if (entry !== undefined) names.push(entry.key, entry.value)
  }
  return names
}

/** The pattern of the value: `files/*` of `files_files/*`. A pattern of keys stays whole. */
function withoutKey(composite: string, key: string): string {
  return composite.startsWith(`${key}_`) ? composite.slice(key.length + 1) : composite
}

function statOf(key: string, value: string): string {
  return value === '' ? key : `${key}_${value}`
}

function pathOf(domain: string, names: readonly string[]): string {
  let path = domain
  for (let i = 0; i < names.length; i += 2) path += `.${statOf(names[i] ?? '', names[i + 1] ?? '')}`
  return path
}

/** The path of metrics of a limit that a request brings along: all its keys and values. */
export function pathOfEntries(domain: string, entries: readonly DescriptorEntry[]): string {
  return pathOf(domain, namesOf(entries))
}

class TreeBuilder {
  readonly nodes: LimitNode[] = []
  readonly #paths = new Set<string>()

  build(domain: string, descriptors: readonly DescriptorConfig[]): TreeNode {
    const root: TreeNode = {
      key: domain,
      composite: domain,
      parent: undefined,
      pattern: undefined,
      sharesThreshold: false,
      valueToMetric: false,
      hasPatterns: false,
      hasDynamicPath: false,
      isDynamic: false,
      metricPath: domain,
      limit: undefined,
      children: descriptors.length === 0 ? undefined : new Map(),
      patterns: [],
    }
    this.addChildren(root, domain, [], descriptors)
    return root
  }

  private addChildren(
    parent: TreeNode,
    path: string,
    parentKeys: readonly string[],
    descriptors: readonly DescriptorConfig[],
  ): void {
    for (const descriptor of descriptors) {
      const composite = compositeOf(descriptor)
      // The parsers refuse duplicates.
      if (parent.children === undefined || parent.children.has(composite)) continue
      const own = `${path}.${composite}`
      const hasPattern = composite.includes(WILDCARD)
      const keys = [...parentKeys, descriptor.key]
      const limit = descriptor.limit && this.limitNode(own, keys, descriptor, descriptor.limit)
      const isDynamic =
        (hasPattern && descriptor.shareThreshold) ||
        descriptor.valueToMetric ||
        // A pattern in the key itself is no value of it.
        descriptor.key.includes(WILDCARD)
      const hasDynamicPath = parent.hasDynamicPath || isDynamic
      const node: TreeNode = {
        key: descriptor.key,
        composite,
        parent,
        pattern: hasPattern ? compilePattern(composite) : undefined,
        sharesThreshold: hasPattern && descriptor.shareThreshold,
        valueToMetric: descriptor.valueToMetric,
        hasPatterns: parent.hasPatterns || hasPattern,
        hasDynamicPath,
        isDynamic: hasDynamicPath || descriptor.detailedMetric,
        metricPath: sanitizeStat(own),
        limit,
        children: descriptor.descriptors.length === 0 ? undefined : new Map(),
        patterns: [],
      }
      parent.children.set(composite, node)
      if (hasPattern) parent.patterns.push(node)
      this.addChildren(node, own, keys, descriptor.descriptors)
    }
  }

  private limitNode(
    path: string,
    keys: readonly string[],
    config: DescriptorConfig,
    limit: LimitConfig,
  ): LimitNode {
    let unique = path
    for (let count = 2; this.#paths.has(unique); count++) unique = `${path}~${count}`
    this.#paths.add(unique)
    const { isShadow, isQuota, detailedMetric, valueToMetric, metadata } = config
    const flags = { isShadow, isQuota, detailedMetric, valueToMetric }
    const node = { path: unique, keys, limit, ...flags, metadata }
    this.nodes.push(node)
    return node
  }
}
