/**
 * Parses large sets, which take seconds and hundreds of megabytes: in a worker thread, so that
 * calls are decided meanwhile, and one at a time, to bound memory.
 */
import { Semaphore } from '../../lib/semaphore.js'
import {
  WORKER_LENGTH_MIN,
  parseInWorker,
  parseJsonInWorker,
  type ParseTextOptions,
  type ParsedText,
} from '../sync/parse-in-worker.js'
import { RESPONSE_FIELDS, RESPONSE_SET_FIELDS } from './rule-documents.js'
import { EditError } from './edit-errors.js'

/** Sets that may wait: each keeps its text in memory. */
const WAITING_MAX = 8

/** A parsed set that was sent as JSON, with the fields that the admin API adds. */
export class LargeSet {
  readonly read: ParsedText
  readonly version: unknown
  readonly next: unknown

  constructor(read: ParsedText, omitted: Readonly<Record<string, unknown>>) {
    this.read = read
    this.version = omitted['version']
    this.next = omitted['next']
  }
}

export function isLarge(text: { readonly length: number }): boolean {
  return text.length >= WORKER_LENGTH_MIN
}

/** Rejects with a `SyntaxError` if the text is not JSON. */
export async function parseLargeJson(text: string, options: ParseTextOptions): Promise<LargeSet> {
  const fields = { set: RESPONSE_SET_FIELDS, rule: RESPONSE_FIELDS }
  const { omitted, ...read } = await inTurn(() => parseJsonInWorker(text, fields, options))
  return new LargeSet(read, omitted)
}

export function parseSetText(text: string, options: ParseTextOptions): Promise<ParsedText> {
  const { file, strict, ruleContext } = options
  const read = () => parseInWorker(text, { file, strict, ruleContext })
  return isLarge(text) ? inTurn(read) : read()
}

const semaphore = new Semaphore(1)

async function inTurn<Result>(read: () => Promise<Result>): Promise<Result> {
  if (semaphore.waiting >= WAITING_MAX) {
    const message = `${WAITING_MAX} large rule sets are waiting to be read already. Try again`
    throw new EditError('rules_unavailable', message)
  }
  return semaphore.run(async () => {
    try {
      return await read()
    } catch (error) {
      if (error instanceof SyntaxError) throw error
      const why = error instanceof Error ? error.message : String(error)
      throw new EditError('rules_invalid', `the set cannot be read: ${why}`, { cause: error })
    }
  })
}
