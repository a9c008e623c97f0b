/** Problems of rules: one table of codes and one message format. */
import { nearest, NO_ATTRIBUTES } from './suggest.js'
import { show } from '../errors.js'

interface ProblemKind {
  readonly severity: 'error' | 'warning'
  /** The message text that follows the name of the field. */
  readonly message: (found: string, why: string) => string
}

const error = (says: ProblemKind['message']): ProblemKind => ({ severity: 'error', message: says })
const warning = (says: ProblemKind['message']): ProblemKind => ({
  severity: 'warning',
  message: says,
})

/** Each code has a file of its name in conformance/rules, with its messages. */
export const PROBLEMS = {
  // The text as a whole.
  'too-large': error((found) => `too large: ${found}`),
  'too-deep': error((found) => `nested too deeply: ${found}`),
  'too-many-aliases': error((found) => `too many aliases: ${found}`),
  'bad-yaml': error((found, why) => `bad YAML at ${found}: ${why}`),
  'unsupported-yaml': error((found) => `${found} is not supported`),
  // The shape of lists and maps.
  'wrong-type': error((found) => `found ${found}`),
  'unknown-key': error((found) => `unknown key ${found}`),
  'duplicate-key': error((found) => `key ${found} is given twice`),
  'bad-key': error((found) => `found ${found}`),
  'missing-field': error(() => 'missing'),
  'unknown-value': error((found) => `unknown value ${found}`),
  'duplicate-value': error((found) => `${found} is given twice`),
  'too-many': error((found) => `too many: ${found}`),
  'too-long': error((found) => `too long: ${found}`),
  empty: error((found) => `found ${found}`),
  // Names and values.
  'bad-id': error((found) => `bad id ${found}`),
  'duplicate-id': error((found, why) => `id ${found} is taken by ${why}`),
  'bad-method': error((found) => `bad method ${found}`),
  'bad-path': error((found) => `bad path: ${found}`),
  'duplicate-route': error((found, why) => `route ${found} matches the same paths as ${why}`),
  'bad-attribute': error((found) => `bad attribute name ${found}`),
  'reserved-attribute': error((found) => `${found} has a field of its own`),
  'bad-value': error((found) => `bad value ${found}`),
  'bad-cidr': error((found) => `bad network: ${found}`),
  'bad-priority': error((found) => `bad priority ${found}`),
  'unknown-priority': error((found) => `unknown priority ${found}`),
  'bad-number': error((found) => `number ${found} is out of range`),
  'bad-time': error((found) => `bad time ${found}`),
  // Limits.
  'bad-limit': error((found) => `cannot read the limit ${found}`),
  'bad-duration': error((found) => `bad duration ${found}`),
  'bad-zone': error((found) => `unknown time zone ${found}`),
  'limit-number': error((found) => `number ${found} is out of range`),
  'limit-window': error((found) => `window ${found} is out of range`),
  'limit-lease': error((found) => `lease ${found} is out of range`),
  'limit-conflict': error((found) => `found ${found}`),
  'limit-too-fine': error((found) => `found ${found}`),
  'bad-limit-name': error((found) => `bad limit name ${found}`),
  'duplicate-limit-name': error((found, why) => `limit name ${found} is taken by ${why}`),
  // Rules as a whole.
  'bad-tiers': error((found) => `found ${found}`),
  'bad-caller': error((found, why) => `${found} ${why}`),
  'duplicate-override': error((found, why) => `${found} has an override already, ${why}`),
  'coordination-conflict': error((found, why) => `${found} does not go with coordination: ${why}`),
  'cost-above-limit': error((found, why) => `${found} is above ${why}, so no call would pass`),
  'bad-headroom': error((found) => `found ${found}`),
  'headroom-too-large': error((found, why) => `${found} leaves too little of ${why}`),
  'bad-shares': error((found) => `found ${found}`),
  'regions-conflict': error((found, why) => `${found} does not go with regions: ${why}`),
  'share-too-large': error((found, why) => `${found} is above ${why}`),
  'never-matches': error((found) => `matches no call: ${found}`),
  'too-many-limits': error((found) => `one call could meet ${found}`),
  'more-problems': error((found) => `${found} problems`),
  // Rules that work, but probably not as intended.
  'idle-headroom': warning(() => 'has no effect without priorities'),
  'large-log': warning((found) => `a log of ${found}`),
  'hedged-log': warning((found) => `hedge has no effect on calls that meet ${found}`),
  'end-unseen': warning((found) => `nothing is counted: the end of a ${found} is not seen`),
  'long-fixed-window': warning((found, why) => `a fixed window of ${found} ${why}`),
  'small-lease': warning(
    (found) => `${found} is below the 2 units of the smallest lease, so every call asks the store`,
  ),
  'slow-sync': warning(
    (found, why) =>
      `counts merged every ${found} come too late for a window of ${why}: each node may admit it all`,
  ),
  'regions-apart': warning(
    (found, why) => `${found} cannot be merged, so each region has it all: ${why}`,
  ),
  'wide-merge': warning(
    (found, why) =>
      `merged counts come too late for ${found}: regions may admit more than ${why} beyond the limit`,
  ),
  'small-share': warning((found, why) => `region ${found} has a share too small for ${why}`),
  'tight-address-rule': warning((found, why) => `${found} per address is less than ${why}`),
  'by-path': warning((found) => `counting by ${found} gives a caller a new budget on every path`),
  'by-everybody': warning(
    (found) => `counting by ${found} counts only calls that have an attribute of that name`,
  ),
  'free-cost': warning(
    (found) => `a caller that can set ${found} itself, as with a header, chooses its own cost`,
  ),
  'claimed-priority': warning(
    (found) => `a caller that can set ${found} itself chooses its own priority`,
  ),
  'claimed-block': warning(
    (found) => `any caller that can set ${found} can have another one blocked`,
  ),
  'dodged-rule': warning((found) => `a caller that leaves out ${found} meets no rule here`),
} as const satisfies Readonly<Record<string, ProblemKind>>

export type ProblemCode = keyof typeof PROBLEMS

export interface Problem {
  readonly code: ProblemCode
  readonly file?: string
  /** From 1, as in editors. Absent if the rules were not text. */
  readonly line?: number
  readonly column?: number
  /** The id of the rule, if it has a valid one; `field` is then a field of that rule. */
  readonly rule?: string
  readonly field: string
  readonly found: string
  readonly accepted: string
  readonly suggestion?: string
  readonly message: string
}

/** A problem as found by the parser: with an offset, and before suggestions are computed. */
export interface Diagnostic {
  readonly code: ProblemCode
  readonly at: number
  readonly rule?: string
  readonly field: string
  readonly found: string
  readonly accepted: string
  readonly why?: string
  readonly suggestion?: string | undefined
  /** The suggestion is the nearest of these. */
  readonly near?: { readonly word: string; readonly words: readonly string[] }
}

/**
 * Reports a problem. Returns undefined, so that a reader can report and return in one statement.
 */
export type ReportDiagnostic = (diagnostic: Diagnostic) => undefined

/** The most problems reported for one set, even if every line has the same mistake. */
export const PROBLEMS_MAX = 100

export interface Diagnostics {
  readonly report: ReportDiagnostic
  /** The number of errors; a warning leaves a rule usable, with `strict` or without. */
  readonly errorCount: () => number
  /** The number of all problems, including warnings. */
  readonly count: () => number
  readonly finish: () => {
    readonly errors: readonly Problem[]
    readonly warnings: readonly Problem[]
  }
}

/** Whether a problem leaves the rule usable. */
export function isWarning({ code }: Diagnostic): boolean {
  return PROBLEMS[code].severity === 'warning'
}

export function createDiagnostics(options: {
  readonly file: string | undefined
  /** Treats warnings as errors. */
  readonly strict: boolean
  readonly text: string | undefined
}): Diagnostics {
  const errors: Diagnostic[] = []
  const warnings: Diagnostic[] = []
  const counts = { error: 0, warning: 0 }
  let errorCount = 0
  const report: ReportDiagnostic = (diagnostic) => {
    const { severity: own } = PROBLEMS[diagnostic.code]
    const severity = options.strict ? 'error' : own
    const list = severity === 'error' ? errors : warnings
    counts[severity]++
    if (own === 'error') errorCount++
    if (list.length < PROBLEMS_MAX) list.push(diagnostic)
    return undefined
  }
  const locate = createLocator(options.text ?? '')
  const finishList = (list: readonly Diagnostic[], count: number) =>
    list
      .toSorted((a, b) => a.at - b.at)
      .concat(count > list.length ? [countRest(count - list.length)] : [])
      .map((diagnostic) => describeProblem(diagnostic, options.file, locate))
  return {
    report,
    errorCount: () => errorCount,
    count: () => counts.error + counts.warning,
    finish: () => ({
      errors: finishList(errors, counts.error),
      warnings: finishList(warnings, counts.warning),
    }),
  }
}

function countRest(count: number): Diagnostic {
  const accepted = `none; the first ${PROBLEMS_MAX} are listed`
  return { code: 'more-problems', at: -1, field: 'document', found: `${count} more`, accepted }
}

type Locate = (at: number) => { readonly line: number; readonly column: number } | undefined

function createLocator(text: string): Locate {
  // Most sets have no problem and need no line table.
  let starts: number[] | undefined
  return (at) => {
    if (at < 0) return undefined
    if (starts === undefined) {
      starts = [0]
      for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', end + 1)) {
        starts.push(end + 1)
      }
    }
    let line = 0
    let after = starts.length
    while (after - line > 1) {
      const middle = (line + after) >>> 1
      if ((starts[middle] ?? 0) <= at) line = middle
      else after = middle
    }
    return { line: line + 1, column: at - (starts[line] ?? 0) + 1 }
  }
}

function describeProblem(
  diagnostic: Diagnostic,
  file: string | undefined,
  locate: Locate,
): Problem {
  const { code, at, rule, field, near } = diagnostic
  const found = show(diagnostic.found)
  const { accepted } = diagnostic
  const place = locate(at)
  const suggestion =
    diagnostic.suggestion ?? (near === undefined ? undefined : nearest(near.word, near.words))
  const position = place === undefined ? [] : [place.line, place.column]
  const prefix = [file === undefined ? [] : show(file, 256), ...position].flat().join(':')
  const message = [
    prefix === '' ? '' : `${prefix}: `,
    rule === undefined ? '' : `rule "${rule}": `,
    `${field}: ${PROBLEMS[code].message(found, diagnostic.why ?? '')}`,
    suggestion === undefined ? '. ' : `; did you mean ${quoteSuggestion(suggestion)}? `,
    `Accepted: ${accepted}`,
  ].join('')
  return {
    code,
    ...(file === undefined ? {} : { file }),
    ...place,
    ...(rule === undefined ? {} : { rule }),
    field,
    found,
    accepted,
    ...(suggestion === undefined ? {} : { suggestion }),
    message,
  }
}

function quoteSuggestion(suggestion: string): string {
  return suggestion === NO_ATTRIBUTES ? suggestion : `"${suggestion}"`
}
