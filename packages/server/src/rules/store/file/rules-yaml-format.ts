/** Formats the rules as YAML, with a head that says what the file is. */
import { createHash } from 'node:crypto'
import { writeYaml } from '@sluice/core'
import {
  type CandidateDocument,
  optionalSetFields,
  type OverrideDocument,
  type RuleDocument,
  type SetFields,
} from '../records.js'

/** Overrides of one rule that are shown; if there are more, they are only counted. */
export const OVERRIDES_SHOWN_MAX = 100

export interface YamlRule {
  readonly document: RuleDocument
  readonly candidate: CandidateDocument | undefined
  readonly overrideCount: number
  /** None if there are more than `OVERRIDES_SHOWN_MAX`. */
  readonly overrides: readonly OverrideDocument[]
}

export interface YamlRuleSet {
  /** The last version that changed any of it. */
  readonly version: number
  readonly set: SetFields
  readonly rules: readonly YamlRule[]
}

const CHECKSUM = /^# Checksum of the rest: [0-9a-f]{64}\n/m
const VERSION = /^# The rules of Sluice as of version (\d{1,16})\b/

/** Yields the text in pieces, so that formatting many rules can pause for other work. */
export function* yamlPieces({ set, rules }: YamlRuleSet): Generator<string, void, undefined> {
  const crowded = rules.filter(({ overrideCount }) => overrideCount > OVERRIDES_SHOWN_MAX)
  for (const { document, overrideCount } of crowded) {
    yield `# ${document.id} has ${overrideCount} overrides, too many to show here.\n`
  }
  const { routes, strictPaths } = set
  yield writeYaml({
    routes: routes.length === 0 ? undefined : routes,
    strictPaths: strictPaths ? true : undefined,
    ...optionalSetFields(set),
  }).replace(/^\{\}\n/, '')
  if (rules.length === 0) yield 'rules: []\n'
  else yield 'rules:\n'
  for (const rule of rules) yield indented(writeYaml([ruleOf(rule)]))
}

/** Returns the whole file. The checksum covers everything but its own line. */
export function withHead(version: number, body: string): string {
  const head = `# The rules of Sluice as of version ${version} of its rule store, to look at.
# Edits here are not read. To change rules: sluice rules apply -f FILE
`
  return `${head}# Checksum of the rest: ${sha256(head + body)}\n${body}`
}

export interface ReadHead {
  /** Undefined: Sluice did not write it. */
  readonly version: number | undefined
  /** Whether it is unchanged since Sluice wrote it. */
  readonly isWhole: boolean
}

export function readHead(text: string): ReadHead {
  const version = VERSION.exec(text)?.[1]
  const found = CHECKSUM.exec(text)
  if (version === undefined || found === null) return { version: undefined, isWhole: false }
  const written = withHead(Number(version), text.slice(found.index + found[0].length))
  return { version: Number(version), isWhole: written === text }
}

function ruleOf({ document, candidate, overrides }: YamlRule): object {
  return {
    ...document,
    ...(candidate === undefined ? {} : { candidate }),
    ...(overrides.length === 0 ? {} : { overrides }),
  }
}

function indented(text: string): string {
  return text.replace(/^(?=.)/gm, '  ')
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
