/**
 * Rules parsed where they hold nobody up: a megabyte takes seconds, in which this thread would
 * decide nothing.
 */
import { Worker } from 'node:worker_threads'
import { type ParsedRules, type Plain, parseRules, readPlain } from '@sluice/core'

/** A shorter text is parsed in less time than a thread takes to start. */
const APART_FROM = 64 * 1024
/** A text that is no rules at all can be given up on. */
const PARSE_MS_MAX = 60_000

/** A text as rules, and as what it says. */
export interface ReadText {
  readonly parsed: ParsedRules
  /** Of rules without errors. */
  readonly plain: Plain
}

const PROGRAM = `
  const { parentPort, workerData } = require('node:worker_threads')
  import(workerData.core).then(({ parseRules, readPlain }) => {
    const { text, file, strict } = workerData
    const parsed = parseRules(text, { file, strict })
    const plain = parsed.rules === undefined ? { problems: [] } : readPlain(text, { file })
    parentPort.postMessage({ parsed, plain })
  })
`

export function readText(
  text: string,
  file: string | undefined,
  parsed = parseRules(text, { file }),
): ReadText {
  return { parsed, plain: parsed.rules === undefined ? NOTHING : readPlain(text, { file }) }
}

const NOTHING: Plain = { problems: [] }

export function readApart(
  text: string,
  file: string | undefined,
  strict = false,
): Promise<ReadText> {
  if (text.length < APART_FROM) {
    return Promise.resolve(readText(text, file, parseRules(text, { file, strict })))
  }
  const core = import.meta.resolve('@sluice/core')
  return new Promise((resolve, reject) => {
    const worker = new Worker(PROGRAM, { eval: true, workerData: { core, text, file, strict } })
    const timer = setTimeout(() => void worker.terminate(), PARSE_MS_MAX).unref()
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () => {
      clearTimeout(timer)
      // After a message this changes nothing.
      reject(
        new Error(
          `${file ?? 'the text'}: the rules could not be read within ${PARSE_MS_MAX / 1000} s`,
        ),
      )
    })
  })
}
