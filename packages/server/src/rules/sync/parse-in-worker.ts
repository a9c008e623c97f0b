/**
 * Rules parsed where they hold nobody up: a megabyte takes seconds, in which this thread would
 * decide nothing.
 */
import { Worker } from 'node:worker_threads'
import { type ParsedRules, type ParsedData, parseRules, parseData } from '@sluice/core'

/** A shorter text is parsed in less time than a thread takes to start. */
export const WORKER_LENGTH_MIN = 64 * 1024
/** A text that is no rules at all can be given up on. */
const PARSE_MS_MAX = 60_000
/** More than any set needs that rules can be; what needs more ends its thread and nothing else. */
const PARSE_MB_MAX = 2048

/** A text as rules, and as what it says. */
export interface ParsedText {
  readonly parsed: ParsedRules
  /** Of rules without errors. */
  readonly plain: ParsedData
}

export interface ParseTextOptions {
  readonly file?: string | undefined
  readonly strict?: boolean | undefined
  /** Attributes that callers may set themselves, by a header. */
  readonly fromHeaders?: ReadonlySet<string> | undefined
}

/** What to leave out of JSON before it is read as rules. */
interface ResponseFields {
  readonly set: readonly string[]
  readonly rule: readonly string[]
}

interface InvalidJson {
  readonly syntaxError: string
}

/** A set that was sent as JSON, with what was left out of it. */
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
  const { from, text, json, ...options } = workerData
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
      // A text would be read as YAML.
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
    return Promise.resolve(parseText(text, options.file, parseRules(text, options)))
  }
  return runInWorker<ParsedText>({ text, ...options })
}

/** Throws a `SyntaxError` for what is no JSON. */
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
    // Without options of the process: a thread loads the core as it was built.
    const worker = new Worker(PROGRAM, { eval: true, workerData, resourceLimits, execArgv: [] })
    const timer = setTimeout(() => void worker.terminate(), PARSE_MS_MAX).unref()
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () => {
      clearTimeout(timer)
      // After a message this changes nothing.
      const limit = `${PARSE_MS_MAX / 1000} s`
      reject(new Error(`${data.file ?? 'the text'}: the rules could not be read within ${limit}`))
    })
  })
}
