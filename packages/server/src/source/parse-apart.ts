/**
 * Rules parsed where they hold nobody up: a megabyte takes seconds, in which this thread would
 * decide nothing.
 */
import { Worker } from 'node:worker_threads'
import { type ParsedRules, parseRules } from '@sluice/core'

/** A shorter text is parsed in less time than a thread takes to start. */
const APART_FROM = 64 * 1024
/** A text that is no rules at all can be given up on. */
const PARSE_MS_MAX = 60_000

const PROGRAM = `
  const { parentPort, workerData } = require('node:worker_threads')
  import(workerData.core).then(({ parseRules }) => {
    parentPort.postMessage(parseRules(workerData.text, { file: workerData.file }))
  })
`

export function parseApart(text: string, file: string): Promise<ParsedRules> {
  if (text.length < APART_FROM) return Promise.resolve(parseRules(text, { file }))
  const core = import.meta.resolve('@sluice/core')
  return new Promise((resolve, reject) => {
    const worker = new Worker(PROGRAM, { eval: true, workerData: { core, text, file } })
    const timer = setTimeout(() => void worker.terminate(), PARSE_MS_MAX).unref()
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () => {
      clearTimeout(timer)
      // After a message this changes nothing.
      reject(new Error(`${file}: the rules could not be read within ${PARSE_MS_MAX / 1000} s`))
    })
  })
}
