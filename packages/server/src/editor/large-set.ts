/**
 * Sets that take seconds and hundreds of megabytes to read: in a thread of their own, so that calls
 * are decided meanwhile, and one at a time, so that several do not take the memory of all.
 */
import { Turns } from '../turns.js'
import {
  APART_FROM,
  readApart,
  readJsonApart,
  type ReadOptions,
  type ReadText,
} from '../source/parse-apart.js'
import { TOLD_FIELDS, TOLD_SET_FIELDS } from './documents.js'
import { EditError } from './editor-types.js'

/** Each holds its text. */
const WAITING_MAX = 8

/** A set that was sent as JSON and is read already, with what the admin API adds to one. */
export class LargeSet {
  readonly read: ReadText
  readonly version: unknown
  readonly next: unknown

  constructor(read: ReadText, told: Readonly<Record<string, unknown>>) {
    this.read = read
    this.version = told['version']
    this.next = told['next']
  }
}

export function isLarge(text: { readonly length: number }): boolean {
  return text.length >= APART_FROM
}

/** Throws a `SyntaxError` for what is no JSON. */
export async function readLargeJson(text: string, options: ReadOptions): Promise<LargeSet> {
  const fields = { set: TOLD_SET_FIELDS, rule: TOLD_FIELDS }
  const { told, ...read } = await inTurn(() => readJsonApart(text, fields, options))
  return new LargeSet(read, told)
}

export function readSetText(text: string, options: ReadOptions): Promise<ReadText> {
  const { file, strict, fromHeaders } = options
  const read = () => readApart(text, { file, strict, fromHeaders })
  return isLarge(text) ? inTurn(read) : read()
}

const turns = new Turns(1)

async function inTurn<Result>(read: () => Promise<Result>): Promise<Result> {
  if (turns.waiting >= WAITING_MAX) {
    const message = `${WAITING_MAX} large rule sets are waiting to be read already. Try again`
    throw new EditError('rules_unavailable', message)
  }
  return turns.run(async () => {
    try {
      return await read()
    } catch (error) {
      if (error instanceof SyntaxError) throw error
      const why = error instanceof Error ? error.message : String(error)
      throw new EditError('rules_invalid', `the set cannot be read: ${why}`, { cause: error })
    }
  })
}
