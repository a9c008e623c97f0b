/** Reads large YAML texts in a worker thread, in the time of which this one decides calls. */
import { Worker } from 'node:worker_threads'
import { readDocument, type Tree } from '@sluice/core/config-reader'
import { TEXT_LENGTH_MAX, TREE_BOUNDS, withoutMark } from './parse-domain-file.js'

/** A shorter text is read faster than a thread starts. */
const WORKER_LENGTH_MIN = 64 * 1024
/** No valid text takes as long. */
const READ_MS_MAX = 60_000
/** More than any valid text needs. A text that needs more ends its thread and nothing else. */
const READ_MB_MAX = 2048

const PROGRAM = `
  const { parentPort, workerData } = require('node:worker_threads')
  const { from, text, bounds } = workerData
  const reader = require('node:module').createRequire(from).resolve('@sluice/core/config-reader')
  import(require('node:url').pathToFileURL(reader).href).then(({ readDocument }) => {
    parentPort.postMessage(readDocument(text, bounds))
  })
`

/** Returns undefined for a text that is refused for its length. */
export async function readTree(text: string): Promise<Tree | undefined> {
  if (text.length > TEXT_LENGTH_MAX) return undefined
  const plain = withoutMark(text)
  return plain.length < WORKER_LENGTH_MIN ? readDocument(plain, TREE_BOUNDS) : readInWorker(plain)
}

function readInWorker(text: string): Promise<Tree> {
  const workerData = { from: import.meta.url, text, bounds: TREE_BOUNDS }
  const resourceLimits = { maxOldGenerationSizeMb: READ_MB_MAX }
  return new Promise((resolve, reject) => {
    // Without the options of the process (loaders of a test run): a thread loads the built core.
    const worker = new Worker(PROGRAM, { eval: true, workerData, resourceLimits, execArgv: [] })
    const timer = setTimeout(() => void worker.terminate(), READ_MS_MAX).unref()
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () => {
      clearTimeout(timer)
      // No effect after a message, which has resolved the promise.
      reject(new Error(`a file of the configuration was not read in ${READ_MS_MAX / 1000} s`))
    })
  })
}
