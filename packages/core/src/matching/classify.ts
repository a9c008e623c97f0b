/**
 * Classifies calls: gives each the priority of the first line that matches it, and the last
 * priority if none does.
 */
import { readAttribute } from '../call.js'
import { foldPath, type PathPattern } from '../path.js'
import type { RuleSet } from '../rules/rule.js'
import type { NormalizedCall } from './call-view.js'
import type { Condition } from './compiled.js'
import { compileMatch, type CompiledMatch } from './compiled-match.js'
import { conditionHolds } from './match.js'

export interface Priority {
  readonly name: string
  /** 0 for the most important one. */
  readonly index: number
}

interface Line {
  readonly matchesPath: ((path: string | undefined) => boolean) | undefined
  readonly conditions: readonly Condition[]
  readonly priority: Priority
}

export class Classifier {
  readonly priorities: readonly Priority[]
  /** The matches of all lines, for what they read of a call. */
  readonly matches: readonly CompiledMatch[]
  /** Calls that could not be classified, and have no priority. */
  failures = 0
  readonly #byName: ReadonlyMap<string, Priority>
  readonly #last: Priority
  /** The lines that a method may match, so that no other is tried; undefined if none names one. */
  readonly #byMethod: ReadonlyMap<string, readonly Line[]> | undefined
  readonly #anyMethod: readonly Line[]

  constructor(names: readonly string[], classify: RuleSet['classify'], strictPaths: boolean) {
    this.priorities = names.map((name, index) => ({ name, index }))
    this.#byName = new Map(this.priorities.map((priority) => [priority.name, priority]))
    this.#last = this.priorities.at(-1) ?? { name: '', index: 0 }
    this.matches = (classify ?? []).map(compileMatch)
    const lines = (classify ?? []).map(({ as }, i) => {
      const { pattern, conditions = [] } = this.matches[i] ?? {}
      return {
        matchesPath: pattern && compilePath(pattern, strictPaths),
        conditions,
        priority: this.#byName.get(as) ?? this.#last,
      }
    })
    const linesOf = (method: string | undefined) =>
      lines.filter((_, i) => {
        const methods = this.matches[i]?.methods
        return methods === undefined || (method !== undefined && methods.has(method))
      })
    const methods = new Set(this.matches.flatMap((match) => [...(match.methods ?? [])]))
    this.#anyMethod = linesOf(undefined)
    this.#byMethod =
      methods.size === 0
        ? undefined
        : new Map([...methods].map((method) => [method, linesOf(method)]))
  }

  /**
   * A priority that comes with the call is that of the service which sent it: identities read it
   * from trusted peers only. Undefined if the call cannot be classified, which must not refuse it.
   */
  classify(call: NormalizedCall): Priority | undefined {
    try {
      const named = readAttribute(call.attributes, 'priority')
      const known = named === undefined ? undefined : this.#byName.get(named)
      return known ?? this.firstMatch(call)
    } catch {
      this.failures += 1
      return undefined
    }
  }

  private firstMatch(call: NormalizedCall): Priority {
    const { method, path } = call
    const lines =
      (method === undefined ? undefined : this.#byMethod?.get(method)) ?? this.#anyMethod
    for (let i = 0; i < lines.length; i++) {
      const line = lines[i]
      if (line === undefined) continue
      if (line.matchesPath !== undefined && !line.matchesPath(path)) continue
      if (holdsAll(line.conditions, call)) return line.priority
    }
    return this.#last
  }
}

function holdsAll(conditions: readonly Condition[], call: NormalizedCall): boolean {
  for (let i = 0; i < conditions.length; i++) {
    const condition = conditions[i]
    if (condition !== undefined && !conditionHolds(condition, call)) return false
  }
  return true
}

/** Compares without splitting a path into segments, unless the pattern has parameters. */
function compilePath(
  pattern: PathPattern,
  strictPaths: boolean,
): (path: string | undefined) => boolean {
  const text = strictPaths ? pattern.text : foldPath(pattern.text)
  if (text.includes('/:')) {
    const expression = expressionOf(pattern, text)
    return (path) => path !== undefined && expression.test(path)
  }
  if (!pattern.wildcard) return (path) => path === text
  const start = text.slice(0, -1)
  return (path) =>
    path !== undefined &&
    path.length > start.length &&
    path.startsWith(start) &&
    path.charCodeAt(start.length) !== SLASH
}

const SLASH = 47
/** Characters with a meaning in regular expressions. */
const SPECIAL = /[.*+?^${}()|[\]\\]/g

/** `text` is that of the pattern as paths are compared. */
function expressionOf({ wildcard }: PathPattern, text: string): RegExp {
  const segments = (wildcard ? text.slice(0, -2) : text).slice(1).split('/')
  const source = segments
    .map((segment) => `/${segment.startsWith(':') ? '[^/]+' : segment.replace(SPECIAL, '\\$&')}`)
    .join('')
  return new RegExp(wildcard ? `^${source}/[^/]` : `^${source}$`)
}
