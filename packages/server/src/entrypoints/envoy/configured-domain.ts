/** One domain of the configuration: which limit applies to each descriptor of a request. */
import type { Snapshot } from '@sluice/core'
import { type LimitTree, pathOfEntries } from './config/limit-tree.js'
import { sanitizeStat } from './config/stat-name.js'
import { DomainLimits, type DomainLimitsDeps } from './descriptor-limits.js'
import { UINT32_MAX, windowOfUnit } from './limit-units.js'
import { OVER_STATUS, type RequestDescriptor, Status } from './request-descriptor.js'

/** Of a descriptor without a bound. */
const UNLIMITED = new Status('ok', undefined, UINT32_MAX, undefined)

export interface ConfiguredDomainDeps extends DomainLimitsDeps {
  readonly tree: LimitTree
  /** Whether all descriptors are alternatives. */
  readonly isQuota: boolean
}

export class ConfiguredDomain {
  readonly #deps: ConfiguredDomainDeps
  readonly #hasReplaces: boolean
  readonly #hasQuota: boolean
  #limits: DomainLimits | undefined

  constructor(deps: ConfiguredDomainDeps) {
    const { nodes } = deps.tree
    this.#deps = deps
    this.#hasReplaces = nodes.some(({ limit }) => limit.replaces.length > 0)
    this.#hasQuota = deps.isQuota || nodes.some(({ isQuota }) => isQuota)
  }

  /** The limits, with counters named by the key of a snapshot. */
  limitsOf(snapshot: Snapshot): DomainLimits {
    if (this.#limits?.secret !== snapshot.secret) {
      this.#limits = new DomainLimits(this.#deps, snapshot)
    }
    return this.#limits
  }

  /** Finds the limit of each descriptor. */
  select(descriptors: readonly RequestDescriptor[]): void {
    for (let i = 0; i < descriptors.length; i++) {
      const each = descriptors[i]
      if (each !== undefined) this.selectOne(each)
    }
    if (this.#hasReplaces) dropReplaced(descriptors)
    if (this.#hasQuota) this.separateAlternatives(descriptors)
  }

  /**
   * Whether a descriptor is one of several of which one must have room. One that gives units back
   * asks for none, and one that is refused because it matches nothing is refused in any case.
   */
  isQuota({ kind, selected, status, isReturn }: RequestDescriptor): boolean {
    if (isReturn || (kind === 'unmatched' && status === OVER_STATUS)) return false
    if (this.#deps.isQuota) return kind !== 'exempt'
    return this.#hasQuota && kind === 'limited' && selected?.node.isQuota === true
  }

  private selectOne(each: RequestDescriptor): void {
    const { tree } = this.#deps
    const { entries, limit } = each.descriptor
    // A limit without a known unit says nothing, and that of the configuration stays.
    if (limit !== undefined && windowOfUnit(limit.unit) !== undefined) {
      each.kind = 'limited'
      each.metricPath = sanitizeStat(pathOfEntries(this.#deps.domain, entries))
      return
    }
    const selected = tree.select(entries)
    if (selected === undefined) {
      if (tree.isExempt(entries)) each.kind = 'exempt'
      return
    }
    each.selected = selected
    each.metricPath = selected.metricPath
    each.kind = 'limited'
    if (!selected.node.limit.isUnlimited) return
    each.kind = 'exempt'
    each.status = UNLIMITED
  }

  /** A single quota is like any other limit: nothing else could have room in its place. */
  private separateAlternatives(descriptors: readonly RequestDescriptor[]): void {
    let quotas = 0
    for (const each of descriptors) if (this.isQuota(each)) quotas++
    if (quotas < 2) return
    for (const each of descriptors) {
      each.isAlternative = each.kind === 'limited' && this.isQuota(each)
    }
  }
}

/** A limit that is replaced by another one of the request does not count. */
function dropReplaced(descriptors: readonly RequestDescriptor[]): void {
  const replaced = new Set<string>()
  for (const { selected } of descriptors) {
    for (const name of selected?.node.limit.replaces ?? []) replaced.add(name)
  }
  if (replaced.size === 0) return
  for (const each of descriptors) {
    const name = each.selected?.node.limit.name ?? ''
    if (each.kind === 'limited' && name !== '' && replaced.has(name)) each.kind = 'exempt'
  }
}
