/**
 * Parses large texts of rules in a worker thread: a megabyte takes seconds, in which this thread
 * would decide nothing.
 */
import { Worker } from 'node:worker_threads'
import {
  type ParsedRules,
  type ParsedData,
  parseRules,
  parseData,
  type RuleContext,
} from '@sluice/core'

/** A shorter text is parsed faster than a thread starts. */
export const WORKER_LENGTH_MIN = 64 * 1024
/** No valid text takes as long. */
const PARSE_MS_MAX = 60_000
/** More than any valid set needs. A text that needs more ends its thread and nothing else. */
const PARSE_MB_MAX = 2048

/** A text as rules, and as plain data. */
export interface ParsedText {
  readonly parsed: ParsedRules
  /** Empty if the rules have errors. */
  readonly plain: ParsedData
}

export interface ParseTextOptions {
  readonly file?: string | undefined
  readonly strict?: boolean | undefined
  /** What is known of this node. @default nothing */
  readonly ruleContext?: RuleContext | undefined
}

/** Fields of the admin API's responses, removed from JSON before it is parsed as rules. */
interface ResponseFields {
  readonly set: readonly string[]
  readonly rule: readonly string[]
}

interface InvalidJson {
  readonly syntaxError: string
}

/** A set that was sent as JSON, with the fields that were removed from it. */
export interface ParsedJson extends ParsedText {
  readonly omitted: Readonly<Record<string, unknown>>
}

const PROGRAM = `
  const { parentPort, workerData } = require('node:worker_threads')
  const takeOut = (value, names) => {
    const isMap = typeof value === 'object' && value !== null && !Array.isArray(value)
    const taken = {}
    for (const name of names) {
      if (!isMap || !Object.hasOwn(value, name)) continue
      taken[name] = value[name]
      delete value[name]
    }
    return taken
  }
  const { from, text, json, ruleContext, ...source } = workerData
  const options = { ...ruleContext, ...source }
  const core = require('node:module').createRequire(from).resolve('@sluice/core')
  import(require('node:url').pathToFileURL(core).href).then(({ parseRules, parseData }) => {
    const readYaml = () => {
      const parsed = parseRules(text, options)
      return { parsed, plain: parsed.rules === undefined ? { problems: [] } : parseData(text, options) }
    }
    const readJson = () => {
      const value = JSON.parse(text)
      const omitted = takeOut(value, json.set)
      const rules = Array.isArray(value) ? value : value?.rules
      if (Array.isArray(rules)) for (const rule of rules) takeOut(rule, json.rule)
      // A string would be parsed as YAML.
      const isSet = typeof value === 'object' && value !== null
      const parsed = parseRules(isSet ? value : [value], options)
      return { parsed, omitted, plain: { value: parsed.rules && value, problems: [] } }
    }
    try {
      parentPort.postMessage(json === undefined ? readYaml() : readJson())
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error
      parentPort.postMessage({ syntaxError: error.message })
    }
  })
`

export function parseText(
  text: string,
  file: string | undefined,
  parsed = parseRules(text, { file }),
): ParsedText {
  return { parsed, plain: parsed.rules === undefined ? NO_DATA : parseData(text, { file }) }
}

const NO_DATA: ParsedData = { problems: [] }

export function parseInWorker(text: string, options: ParseTextOptions): Promise<ParsedText> {
  if (text.length < WORKER_LENGTH_MIN) {
    const { ruleContext, ...source } = options
    return Promise.resolve(
      parseText(text, options.file, parseRules(text, { ...ruleContext, ...source })),
    )
  }
  return runInWorker<ParsedText>({ text, ...options })
}

/** Rejects with a `SyntaxError` if the text is not JSON. */
export async function parseJsonInWorker(
  text: string,
  json: ResponseFields,
  options: ParseTextOptions,
): Promise<ParsedJson> {
  const read = await runInWorker<ParsedJson | InvalidJson>({ text, ...options }, json)
  if ('syntaxError' in read) throw new SyntaxError(read.syntaxError)
  return read
}

function runInWorker<Result>(
  data: ParseTextOptions & { readonly text: string },
  json?: ResponseFields,
): Promise<Result> {
  const workerData = { ...data, json, from: import.meta.url }
  const resourceLimits = { maxOldGenerationSizeMb: PARSE_MB_MAX }
  return new Promise((resolve, reject) => {
    // Without the options of the process (loaders of a test run): a thread loads the built core.
    const worker = new Worker(PROGRAM, { eval: true, workerData, resourceLimits, execArgv: [] })
    const timer = setTimeout(() => void worker.terminate(), PARSE_MS_MAX).unref()
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () => {
      clearTimeout(timer)
      // No effect after a message, which has resolved the promise.
      const limit = `${PARSE_MS_MAX / 1000} s`
      reject(new Error(`${data.file ?? 'the text'}: the rules could not be read within ${limit}`))
    })
  })
}
