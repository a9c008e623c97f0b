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
  /** What the path must begin with, or be; undefined for any path. */
  readonly head: string | undefined
  /**
   * The character of the head after what all heads share, in which most paths differ from most
   * heads; `ANY` if there is none.
   */
  readonly code: number
  /** What decides a path with this head; undefined if the head is the whole path. */
  readonly rest: ((path: string) => boolean) | undefined
  readonly conditions: readonly Condition[]
  readonly priority: Priority
}

/** No character of a path. */
const ANY = -1
const NO_PATH = -2

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
  /** How many characters the paths of all lines begin with. */
  readonly #shared: number

  constructor(names: readonly string[], classify: RuleSet['classify'], strictPaths: boolean) {
    this.priorities = names.map((name, index) => ({ name, index }))
    this.#byName = new Map(this.priorities.map((priority) => [priority.name, priority]))
    this.#last = this.priorities.at(-1) ?? { name: '', index: 0 }
    this.matches = (classify ?? []).map(compileMatch)
    const heads = this.matches.map(({ pattern }) => pattern && headOf(pattern, strictPaths))
    this.#shared = sharedLength(heads)
    const lines = (classify ?? []).map(({ as }, i): Line => {
      const { pattern, conditions = [] } = this.matches[i] ?? {}
      const head = heads[i]
      const isLonger = head !== undefined && head.length > this.#shared
      return {
        head,
        code: isLonger ? head.charCodeAt(this.#shared) : ANY,
        rest: pattern && head !== undefined ? compileRest(pattern, strictPaths, head) : undefined,
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
      // Read by its name, which is faster than readAttribute: few calls have it.
      if (call.attributes['priority'] === undefined) return this.firstMatch(call)
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
    const code = path === undefined ? NO_PATH : path.charCodeAt(this.#shared)
    for (let i = 0; i < lines.length; i++) {
      const line = lines[i]
      if (line === undefined || (line.code !== code && line.code !== ANY)) continue
      if (line.head !== undefined && !matchesPath(line.head, line.rest, path)) continue
      if (line.conditions.length === 0 || holdsAll(line.conditions, call)) return line.priority
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

function matchesPath(head: string, rest: Line['rest'], path: string | undefined): boolean {
  if (path === undefined || rest === undefined) return path === head
  return path.startsWith(head) && rest(path)
}

/** Returns the text of a pattern before its first parameter or wildcard. */
function headOf({ text, wildcard }: PathPattern, strictPaths: boolean): string {
  const compared = strictPaths ? text : foldPath(text)
  const parameter = compared.indexOf('/:')
  if (parameter !== -1) return compared.slice(0, parameter + 1)
  return wildcard ? compared.slice(0, -1) : compared
}

/** Returns how many characters all heads begin with: nothing before them tells lines apart. */
function sharedLength(heads: readonly (string | undefined)[]): number {
  const [first = '', ...others] = heads.filter((head) => head !== undefined)
  let length = 0
  while (length < first.length && others.every((head) => head[length] === first[length])) length++
  return length
}

/** Compares without splitting a path into segments, unless the pattern has parameters. */
function compileRest(pattern: PathPattern, strictPaths: boolean, head: string): Line['rest'] {
  const text = strictPaths ? pattern.text : foldPath(pattern.text)
  if (text.includes('/:')) {
    const expression = expressionOf(pattern, text)
    return (path) => expression.test(path)
  }
  if (!pattern.wildcard) return undefined
  return (path) => path.length > head.length && path.charCodeAt(head.length) !== SLASH
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
