/** Reads a decision log, for replay. */
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { isCount, type RuleOutcome, show, type Source } from '@sluice/core'
import {
  FORMAT_VERSION,
  HEAD_FORM,
  HEAD_WORD,
  type LoggedDecision,
  OUTCOME_LETTERS,
  SOURCE_LETTERS,
} from './decision-log-format.js'

/** Longer than any line that the log contains. */
const LINE_LENGTH_MAX = 1024
const NAMES_MAX = 100_000
const HEAD = new RegExp(`^${HEAD_WORD} ${FORMAT_VERSION} (\\d{1,15}) sample=(\\d(?:[.\\de-]*))$`)
const NAME = /^=(\d{1,6}) (.+)$/
const CALLER = /^[0-9a-f]{16}$/
const NUMBER = /^(?:0|[1-9]\d{0,15})$/
const LINE_FORM =
  'milliseconds since the line before, number of the rule, 16 hex digits, cost, ' +
  'a, r or s, and s, l, c, d or p, with tabs between them'

/**
 * Yields all decisions of a log in order. `from` is a file, compressed if its name ends in `.gz`,
 * or its content in pieces. A line cut off by a crash or a full disk is skipped; anything else that
 * cannot be read rejects with the line, what was found and what is accepted.
 */
export async function* readDecisions(
  from: string | AsyncIterable<Uint8Array | string>,
): AsyncGenerator<LoggedDecision, void> {
  const section = new LogSection()
  const place = typeof from === 'string' ? from : 'decisions'
  let number = 0
  /** The error of the previous line; ignored if a head or nothing follows. */
  let broken: string | undefined
  for await (const line of linesOf(typeof from === 'string' ? bytesOf(from) : from)) {
    number++
    if (broken !== undefined && !line.startsWith(HEAD_WORD)) throw new Error(broken)
    const read = section.read(line)
    broken = undefined
    if (read === undefined) continue
    if (!('problem' in read)) {
      yield read
      continue
    }
    const message = `${place}:${number}: found ${show(line, 80)}; accepted: ${read.problem}`
    if (!read.mayBeTorn) throw new Error(message)
    broken = message
  }
}

interface UnreadableLine {
  /** What would have been accepted. */
  readonly problem: string
  readonly mayBeTorn: boolean
}

/** The state that a head and the names after it define for the following lines. */
class LogSection {
  readonly #names = new Map<string, string>()
  #atMs = -1
  #sample = 1

  /** Undefined: nothing was decided in this line. */
  read(line: string): LoggedDecision | UnreadableLine | undefined {
    if (line.startsWith('#')) return this.begin(line)
    if (this.#atMs < 0) {
      // The very first write may have broken off.
      return { problem: HEAD_FORM, mayBeTorn: line !== '' && HEAD_WORD.startsWith(line) }
    }
    return line.startsWith('=') ? this.name(line) : this.decision(line)
  }

  private begin(line: string): UnreadableLine | undefined {
    const [, startMs, share] = HEAD.exec(line) ?? []
    const sample = Number(share)
    if (startMs === undefined || !(sample > 0 && sample <= 1)) {
      const [word = '', version = ''] = line.split(' ')
      const isOther = word === HEAD_WORD && version !== '' && version !== String(FORMAT_VERSION)
      return { problem: HEAD_FORM, mayBeTorn: !isOther && this.isBegun(line) }
    }
    this.#names.clear()
    this.#atMs = Number(startMs)
    this.#sample = sample
    return undefined
  }

  private isBegun(line: string): boolean {
    return HEAD_WORD.startsWith(line) || line.startsWith(HEAD_WORD)
  }

  private name(line: string): UnreadableLine | undefined {
    const [, name, rule] = NAME.exec(line) ?? []
    if (name === undefined || rule === undefined || this.#names.size >= NAMES_MAX) {
      return { problem: '=<number> <rule>', mayBeTorn: true }
    }
    this.#names.set(name, rule)
    return undefined
  }

  private decision(line: string): LoggedDecision | UnreadableLine {
    const [since = '', name = '', caller = '', amount = '', ...letters] = line.split('\t')
    const [outcomeLetter = '', from = ''] = letters
    const rule = this.#names.get(name)
    const outcome = OUTCOMES.get(outcomeLetter)
    const source = SOURCES.get(from)
    const cost = Number(amount)
    const isGood =
      letters.length === 2 &&
      NUMBER.test(since) &&
      NUMBER.test(amount) &&
      isCount(cost) &&
      CALLER.test(caller)
    if (!isGood || rule === undefined || outcome === undefined || source === undefined) {
      return { problem: LINE_FORM, mayBeTorn: true }
    }
    this.#atMs += Number(since)
    return { atMs: this.#atMs, rule, caller, cost, outcome, source, sample: this.#sample }
  }
}

const OUTCOMES = new Map<string, RuleOutcome>(
  (['allowed', 'refused', 'shadow_refused'] as const).map((outcome) => [
    OUTCOME_LETTERS[outcome],
    outcome,
  ]),
)
const SOURCES = new Map<string, Source>(
  (['store', 'lease', 'local', 'deny-cache', 'posture'] as const).map((source) => [
    SOURCE_LETTERS[source],
    source,
  ]),
)

function bytesOf(path: string): AsyncIterable<Uint8Array> {
  const file = createReadStream(path)
  // The reader gets errors from the stream it reads, so the callback can ignore them.
  return path.endsWith('.gz') ? pipeline(file, createGunzip(), () => undefined) : file
}

/** Yields lines without their line ends; the last one may have none. */
async function* linesOf(pieces: AsyncIterable<Uint8Array | string>): AsyncGenerator<string> {
  let rest = ''
  for await (const piece of pieces) {
    const text = typeof piece === 'string' ? piece : Buffer.from(piece).toString('latin1')
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    // An overlong line is passed on and refused like any other unreadable line.
    if (rest.length > LINE_LENGTH_MAX) {
      lines.push(rest)
      rest = ''
    }
    yield* lines
  }
  if (rest !== '') yield rest
}
