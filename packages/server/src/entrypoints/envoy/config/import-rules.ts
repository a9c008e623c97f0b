/**
 * Converts a configuration of envoyproxy/ratelimit to rules. A rule sees the entries of a
 * descriptor as attributes: without their order, and with no way to say that there are no others.
 * So a descriptor is converted only if a rule can be exact for every request whose keys are nested
 * as the configuration nests them; for every other one it says why it cannot.
 */
import { isAttributeKey, reservedKeyReason, slugOf } from './import-names.js'
import {
  compositeOf,
  type DescriptorConfig,
  type DomainConfig,
  type LimitConfig,
  WILDCARD,
} from './domain-config.js'
import { compilePattern } from './value-pattern.js'

/** A rule in the form of a rules file. */
interface ImportedRule {
  readonly id: string
  readonly description: string
  readonly match: { readonly where: Readonly<Record<string, ImportedClause>> }
  readonly by: readonly string[]
  readonly limits: readonly ImportedLimit[]
  readonly mode?: 'shadow'
}

type ImportedClause = readonly string[] | { readonly not: readonly string[] } | null

interface ImportedLimit {
  readonly algorithm: 'fixed-window'
  readonly max: number
  readonly window: string
  readonly name?: string
}

export interface ImportNote {
  /** The descriptor: `domain.key_value.key`. */
  readonly path: string
  /**
   * `skipped`: it has no rule. `dropped`: its rule is exact, but something beside its limit is
   * lost. `unlimited`: it needs no rule.
   */
  readonly kind: 'skipped' | 'dropped' | 'unlimited'
  readonly reasons: readonly string[]
}

export interface ImportedRules {
  readonly rules: readonly ImportedRule[]
  readonly notes: readonly ImportNote[]
}

const WINDOWS: Readonly<Record<string, string>> = {
  second: '1s',
  minute: '1m',
  hour: '1h',
  day: '1d',
  week: '7d',
  month: '30d',
  year: '365d',
}

/** The bounds of a rule. */
const BY_MAX = 8
const WHERE_MAX = 16
const VALUES_MAX = 1000
const ID_LENGTH_MAX = 64

const DOMAIN_ATTRIBUTE = 'domain'

export function importRules(domains: readonly DomainConfig[]): ImportedRules {
  const rules: ImportedRule[] = []
  const notes: ImportNote[] = []
  const ids = new Set<string>()
  for (const config of domains) new DomainImport(config, { rules, notes, ids }).run()
  return { rules, notes }
}

interface ImportOutput {
  readonly rules: ImportedRule[]
  readonly notes: ImportNote[]
  readonly ids: Set<string>
}

/** A descriptor with the list that contains it. */
interface Step {
  readonly config: DescriptorConfig
  readonly siblings: readonly DescriptorConfig[]
}

class DomainImport {
  readonly #config: DomainConfig
  readonly #output: ImportOutput
  /** The keys of every descriptor from the top, each sequence once. */
  readonly #sequences = new Map<string, readonly string[]>()
  readonly #keys = new Set<string>()
  /** Names of limits that others replace. */
  readonly #replaced = new Set<string>()

  constructor(config: DomainConfig, output: ImportOutput) {
    this.#config = config
    this.#output = output
    this.collect(config.descriptors, [])
  }

  run(): void {
    this.visit(this.#config.descriptors, [])
  }

  private collect(list: readonly DescriptorConfig[], above: readonly string[]): void {
    for (const { key, limit, descriptors } of list) {
      const keys = [...above, key]
      this.#sequences.set(JSON.stringify(keys), keys)
      this.#keys.add(key)
      for (const name of limit?.replaces ?? []) this.#replaced.add(name)
      this.collect(descriptors, keys)
    }
  }

  private visit(siblings: readonly DescriptorConfig[], above: readonly Step[]): void {
    for (const config of siblings) {
      const steps = [...above, { config, siblings }]
      if (config.limit !== undefined) this.importLimit(steps, config, config.limit)
      this.visit(config.descriptors, steps)
    }
  }

  private importLimit(steps: readonly Step[], config: DescriptorConfig, limit: LimitConfig): void {
    const { rules, notes } = this.#output
    const composites = steps.map((step) => compositeOf(step.config))
    const path = [this.#config.domain, ...composites].join('.')
    const reasons = [...this.reasonsOfLimit(config, limit), ...this.reasonsOfPath(steps)]
    if (limit.isUnlimited && limit.replaces.length === 0) {
      notes.push({ path, kind: 'unlimited', reasons: ['what no rule matches is not limited'] })
      return
    }
    const where = this.whereOf(steps)
    const excluded = this.excludedKeys(steps)
    if (Object.keys(where).length + excluded.length > WHERE_MAX) {
      reasons.push(`a rule has conditions on at most ${WHERE_MAX} attributes`)
    }
    if (reasons.length > 0) {
      notes.push({ path, kind: 'skipped', reasons: [...new Set(reasons)] })
      return
    }
    for (const key of excluded) where[key] = null
    const dropped = droppedParts(config, limit)
    if (dropped.length > 0) notes.push({ path, kind: 'dropped', reasons: dropped })
    const by = steps.filter((step) => step.config.value === undefined).map(keyOf)
    const limits = [limitOf(limit)]
    const rule = {
      id: this.idOf(path),
      description: `Imported from ${path}`,
      match: { where },
      by,
      limits,
    }
    rules.push(config.isShadow ? { ...rule, mode: 'shadow' } : rule)
  }

  private reasonsOfLimit(config: DescriptorConfig, limit: LimitConfig): readonly string[] {
    const reasons: string[] = []
    if (config.isQuota) reasons.push('quota_mode: rules have no alternatives')
    if (limit.replaces.length > 0) reasons.push('replaces: a rule cannot switch off another one')
    if (limit.name !== '' && this.#replaced.has(limit.name)) {
      reasons.push(
        `another limit replaces "${limit.name}": a rule cannot be switched off by another`,
      )
    }
    if (config.shareThreshold) reasons.push('share_threshold: rules have no patterns')
    return reasons
  }

  private reasonsOfPath(steps: readonly Step[]): readonly string[] {
    const keys = steps.map(keyOf)
    const reasons = steps.flatMap((step) => this.reasonsOfStep(step))
    if (new Set(keys).size < keys.length)
      reasons.push('a key twice: a call has each attribute once')
    if (this.hasOtherOrder(keys)) {
      reasons.push('the same keys in another order: attributes of a call have no order')
    }
    if (steps.filter(({ config }) => config.value === undefined).length > BY_MAX) {
      reasons.push(`a rule counts by at most ${BY_MAX} attributes`)
    }
    return reasons
  }

  private reasonsOfStep({ config, siblings }: Step): readonly string[] {
    const { key, value } = config
    const composite = compositeOf(config)
    if (composite.includes(WILDCARD)) return [`the pattern "${composite}": rules have no patterns`]
    const reasons: string[] = []
    const reserved = reservedKeyReason(key)
    if (reserved !== undefined) reasons.push(reserved)
    else if (!isAttributeKey(key)) {
      reasons.push(`the key "${key}": attributes of rules are named by a-z, 0-9, "_", "." and "-"`)
    }
    for (const other of this.#keys) {
      if (other === key) continue
      const joined = 'key and value are joined by _'
      if (composite === other) reasons.push(`${joined}, so the key "${other}" means it too`)
      if (!composite.startsWith(`${other}_`)) continue
      const rest = composite.slice(other.length + 1)
      reasons.push(`${joined}, so "${other}" with "${rest}" means it too`)
    }
    if (value !== undefined) return reasons
    for (const sibling of siblings) {
      const pattern = compositeOf(sibling)
      if (!pattern.includes(WILDCARD) || !mayMatchKey(pattern, key)) continue
      reasons.push(`values that match "${pattern}" beside it: a rule cannot exclude a pattern`)
    }
    if (valuesBeside({ config, siblings }).length > VALUES_MAX) {
      reasons.push(`more than ${VALUES_MAX} values of "${key}" beside it`)
    }
    return reasons
  }

  private whereOf(steps: readonly Step[]): Record<string, ImportedClause> {
    const where: Record<string, ImportedClause> = { [DOMAIN_ATTRIBUTE]: [this.#config.domain] }
    for (const step of steps) {
      const { key, value } = step.config
      const others = value === undefined ? valuesBeside(step) : []
      if (value !== undefined) where[key] = [value]
      else if (others.length > 0) where[key] = { not: others }
    }
    return where
  }

  /**
   * Keys that a request must not have: at least one of each longer sequence with all these keys,
   * which selects another limit or none.
   */
  private excludedKeys(steps: readonly Step[]): readonly string[] {
    const keys = new Set(steps.map(keyOf))
    const excluded = new Set<string>()
    for (const sequence of this.#sequences.values()) {
      const others = sequence.filter((key) => !keys.has(key))
      const isLonger = others.length > 0 && [...keys].every((key) => sequence.includes(key))
      const [first] = others
      if (!isLonger || first === undefined || others.some((key) => excluded.has(key))) continue
      excluded.add(first)
    }
    return [...excluded]
  }

  private hasOtherOrder(keys: readonly string[]): boolean {
    const own = JSON.stringify(keys)
    const sorted = JSON.stringify(keys.toSorted())
    return [...this.#sequences].some(
      ([text, sequence]) => text !== own && JSON.stringify(sequence.toSorted()) === sorted,
    )
  }

  private idOf(path: string): string {
    const { ids } = this.#output
    const base = slugOf(path)
    let id = base
    for (let count = 2; ids.has(id); count++) {
      const ending = `-${count}`
      id = `${base.slice(0, ID_LENGTH_MAX - ending.length)}${ending}`
    }
    ids.add(id)
    return id
  }
}

function keyOf({ config }: Step): string {
  return config.key
}

/** The values of this key that another descriptor of the list takes first. */
function valuesBeside({ config, siblings }: Step): readonly string[] {
  const start = `${config.key}_`
  return siblings.flatMap((sibling) => {
    const composite = compositeOf(sibling)
    const value = composite.slice(start.length)
    return composite.startsWith(start) && value !== '' && !value.includes(WILDCARD) ? [value] : []
  })
}

/** Whether some value of the key matches a pattern of key and value. */
function mayMatchKey(pattern: string, key: string): boolean {
  const { prefix } = compilePattern(pattern)
  const start = `${key}_`
  return prefix.startsWith(start) || start.startsWith(prefix)
}

function limitOf({ unit, requestsPerUnit, name }: LimitConfig): ImportedLimit {
  const limit = {
    algorithm: 'fixed-window' as const,
    max: requestsPerUnit,
    window: WINDOWS[unit ?? ''] ?? '1s',
  }
  return isLimitName(name) ? { ...limit, name } : limit
}

function isLimitName(name: string): boolean {
  return /^[a-z0-9-]{1,64}$/.test(name)
}

function droppedParts(config: DescriptorConfig, { name }: LimitConfig): readonly string[] {
  const dropped: string[] = []
  if (config.metadata !== undefined) dropped.push('metadata: rules have none')
  if (config.detailedMetric) dropped.push('detailed_metric: metrics of rules name no values')
  if (config.valueToMetric) dropped.push('value_to_metric: metrics of rules name no values')
  if (name !== '' && !isLimitName(name)) {
    dropped.push(`the name "${name}": limits are named by a-z, 0-9 and "-"`)
  }
  return dropped
}
