/** Reads variables of envoyproxy/ratelimit by type, in the spellings that Go accepts. */
import { createDiagnostics, type Located, type Problem, reportAt } from '@sluice/core/config-reader'
import { hideText } from '../fields.js'
import { readFileName, readInteger } from '../values.js'
import { type Environment, locateVariable, numeric } from '../variables.js'

const TRUE_WORDS = new Set(['1', 't', 'T', 'TRUE', 'true', 'True'])
const FALSE_WORDS = new Set(['0', 'f', 'F', 'FALSE', 'false', 'False'])
const ACCEPTED_BOOLEAN = 'true or false'

const RATIO = /^\d(?:\.\d+)?$|^\.\d+$/

const DURATION = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h))+$/
const DURATION_PART = /(\d+(?:\.\d+)?)(ms|s|m|h)/g
const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/** An absent variable and an empty one are the same. A bad value is reported, and undefined. */
export class RatelimitVariables {
  readonly #env: Environment
  readonly #diagnostics = createDiagnostics({ file: undefined, strict: false, text: undefined })

  constructor(env: Environment) {
    this.#env = env
  }

  errors(): readonly Problem[] {
    return this.#diagnostics.finish().errors
  }

  has(name: string): boolean {
    return this.text(name) !== undefined
  }

  text(name: string): string | undefined {
    const value = this.#env[name]
    return value === '' ? undefined : value
  }

  /** Reads a variable with a reader of the configuration. */
  read<T>(name: string, read: (located: Located) => T | undefined): T | undefined {
    const value = this.text(name)
    return value === undefined ? undefined : read(this.locate(name, value))
  }

  /** This value in the place of the variable. */
  locate(name: string, value: string): Located {
    return locateVariable(value, { field: name, report: this.#diagnostics.report })
  }

  boolean(name: string): boolean {
    const value = this.text(name)
    if (value === undefined || FALSE_WORDS.has(value)) return false
    if (!TRUE_WORDS.has(value)) this.refuse(name, ACCEPTED_BOOLEAN)
    return true
  }

  integer(name: string, bounds: { readonly least: number; readonly most: number }) {
    return this.read(name, (located) => readInteger(numeric(located), bounds))
  }

  ratio(name: string): number | undefined {
    const value = this.text(name)
    if (value === undefined) return undefined
    const ratio = RATIO.test(value) ? Number(value) : Number.NaN
    return ratio <= 1 ? ratio : this.refuse(name, 'a number from 0 to 1, such as 0.8')
  }

  file(name: string): string | undefined {
    return this.read(name, (located) => readFileName(located, '.'))
  }

  /** One of these words, in any case; the first one if the variable is not set. */
  choice<T extends string>(
    name: string,
    choices: readonly [T, ...T[]],
    accepted = choices.join(', '),
  ): T | undefined {
    const value = this.text(name)?.toLowerCase()
    if (value === undefined) return choices[0]
    return choices.find((choice) => choice === value) ?? this.refuse(name, accepted)
  }

  /** A duration as Go writes it, such as `1m30s`, in milliseconds. */
  durationMs(
    name: string,
    { leastMs, mostMs }: { readonly leastMs: number; readonly mostMs: number },
  ): number | undefined {
    const value = this.text(name)
    if (value === undefined) return undefined
    const ms = DURATION.test(value) ? sumOf(value) : undefined
    if (ms !== undefined && ms >= leastMs && ms <= mostMs) return Math.round(ms)
    return this.refuse(name, `a duration from ${leastMs}ms to ${mostMs}ms, such as 10s or 1m30s`)
  }

  /** Reports the value of a variable. */
  refuse(name: string, accepted: string, code: 'bad-value' | 'duplicate-value' = 'bad-value') {
    return reportAt(this.locate(name, this.text(name) ?? ''), code, { accepted })
  }

  /** Reports the value of a variable, which may be secret. */
  refuseSecret(name: string, accepted: string): undefined {
    const located = this.locate(name, this.text(name) ?? '')
    const found = `of ${this.text(name)?.length ?? 0} characters, not shown`
    return reportAt(hideText(located, found), 'bad-value', { found, accepted })
  }

  missing(name: string, accepted: string): undefined {
    const diagnostic = { at: -1, field: name, found: 'nothing', accepted }
    return this.#diagnostics.report({ code: 'missing-field', ...diagnostic })
  }
}

function sumOf(duration: string): number {
  let ms = 0
  for (const [, digits, unit = ''] of duration.matchAll(DURATION_PART)) {
    ms += Number(digits) * (UNIT_MS[unit] ?? 0)
  }
  return ms
}
