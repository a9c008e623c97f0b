/**
 * Rules parsed where they hold nobody up: a megabyte takes seconds, in which this thread would
 * decide nothing.
 */
import { Worker } from 'node:worker_threads'
import { type ParsedRules, type Plain, parseRules, readPlain } from '@sluice/core'

/** A shorter text is parsed in less time than a thread takes to start. */
export const APART_FROM = 64 * 1024
/** A text that is no rules at all can be given up on. */
const PARSE_MS_MAX = 60_000
/** More than any set needs that rules can be; what needs more ends its thread and nothing else. */
const PARSE_MB_MAX = 2048

/** A text as rules, and as what it says. */
export interface ReadText {
  readonly parsed: ParsedRules
  /** Of rules without errors. */
  readonly plain: Plain
}

export interface ReadOptions {
  readonly file?: string | undefined
  readonly strict?: boolean | undefined
  /** Attributes that callers may set themselves, by a header. */
  readonly fromHeaders?: ReadonlySet<string> | undefined
}

/** What to leave out of JSON before it is read as rules. */
interface ToldFields {
  readonly set: readonly string[]
  readonly rule: readonly string[]
}

interface NoJson {
  readonly syntaxError: string
}

/** A set that was sent as JSON, with what was left out of it. */
export interface ReadJson extends ReadText {
  readonly told: Readonly<Record<string, unknown>>
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
  import(require('node:url').pathToFileURL(core).href).then(({ parseRules, readPlain }) => {
    const readYaml = () => {
      const parsed = parseRules(text, options)
      return { parsed, plain: parsed.rules === undefined ? { problems: [] } : readPlain(text, options) }
    }
    const readJson = () => {
      const value = JSON.parse(text)
      const told = takeOut(value, json.set)
      const rules = Array.isArray(value) ? value : value?.rules
      if (Array.isArray(rules)) for (const rule of rules) takeOut(rule, json.rule)
      // A text would be read as YAML.
      const isSet = typeof value === 'object' && value !== null
      const parsed = parseRules(isSet ? value : [value], options)
      return { parsed, told, plain: { value: parsed.rules && value, problems: [] } }
    }
    try {
      parentPort.postMessage(json === undefined ? readYaml() : readJson())
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error
      parentPort.postMessage({ syntaxError: error.message })
    }
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

export function readApart(text: string, options: ReadOptions): Promise<ReadText> {
  if (text.length < APART_FROM) {
    return Promise.resolve(readText(text, options.file, parseRules(text, options)))
  }
  return inThread<ReadText>({ text, ...options })
}

/** Throws a `SyntaxError` for what is no JSON. */
export async function readJsonApart(
  text: string,
  json: ToldFields,
  options: ReadOptions,
): Promise<ReadJson> {
  const read = await inThread<ReadJson | NoJson>({ text, ...options }, json)
  if ('syntaxError' in read) throw new SyntaxError(read.syntaxError)
  return read
}

function inThread<Result>(
  data: ReadOptions & { readonly text: string },
  json?: ToldFields,
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
      const within = `${PARSE_MS_MAX / 1000} s`
      reject(new Error(`${data.file ?? 'the text'}: the rules could not be read within ${within}`))
    })
  })
}
