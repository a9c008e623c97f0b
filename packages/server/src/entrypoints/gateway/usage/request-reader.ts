/** Reads from the body of a request to a language model what its estimate needs. */
import type { UsageDialect } from './dialects.js'
import {
  compilePaths,
  type JsonReceiver,
  JsonScanner,
  type PathNode,
  type WantedValue,
} from './json-scanner.js'

/** What the body of a request says. */
export interface RequestFacts {
  /** The length of all text that is sent, in bytes; see `textLength` of the JSON scanner. */
  readonly characters: number
  /** The most tokens that each answer may have; undefined: the request does not say. */
  readonly maximum: number | undefined
  /** How many answers the request asks for. */
  readonly answers: number
  /** Undefined: the request does not say, or says two things, or its body was not read. */
  readonly model: string | undefined
  readonly stream: boolean | undefined
}

/**
 * What an image counts as, whatever its size: both APIs scale images down to about 1,600 tokens, of
 * four bytes each. Its encoded bytes would count a hundred times as much.
 */
const IMAGE_LENGTH = 6400
/** More than any model answers with; keeps products of numbers that callers choose exact. */
const MAXIMUM_MAX = 1e7
/** More answers than any API gives to one request. */
const ANSWERS_MAX = 1000
/** How much longer text is than its compressed bytes. No API is known to accept such requests. */
const COMPRESSED_LENGTH = 8

const number = (name: string): WantedValue => ({ kind: 'number', name })
const IMAGE: WantedValue = { kind: 'length', name: 'image' }

const OPENAI = compilePaths({
  model: { kind: 'text', name: 'model' },
  stream: { kind: 'flag', name: 'stream' },
  max_tokens: number('max_tokens'),
  max_completion_tokens: number('max_completion_tokens'),
  max_output_tokens: number('max_output_tokens'),
  n: number('choices'),
  best_of: number('choices'),
  'prompt.*': { kind: 'length', name: 'prompt' },
  'messages.*.content.*.image_url.url': IMAGE,
  'input.*.content.*.image_url': IMAGE,
  'input.*.output.image_url': IMAGE,
})

const SOURCE: readonly (readonly [string, WantedValue])[] = [
  ['source', { kind: 'object', name: 'source' }],
  ['source.type', { kind: 'text', name: 'source type' }],
  ['source.media_type', { kind: 'text', name: 'media type' }],
  ['source.data', { kind: 'length', name: 'data' }],
]

const ANTHROPIC = compilePaths({
  model: { kind: 'text', name: 'model' },
  stream: { kind: 'flag', name: 'stream' },
  max_tokens: number('max_tokens'),
  ...Object.fromEntries(SOURCE.map(([path, each]) => [`messages.*.content.*.${path}`, each])),
  // Tools answer with images too.
  ...Object.fromEntries(
    SOURCE.map(([path, each]) => [`messages.*.content.*.content.*.${path}`, each]),
  ),
})

const PATHS: Readonly<Record<UsageDialect, PathNode>> = { openai: OPENAI, anthropic: ANTHROPIC }

/**
 * The fields that bound the output, by the end of the path. A field that the API ignores must not
 * lower an estimate. None: the API has no output.
 */
const MAXIMUM_FIELDS: readonly (readonly [ending: string, fields: readonly string[]])[] = [
  ['/responses', ['max_output_tokens']],
  ['/completions', ['max_tokens', 'max_completion_tokens']],
  ['/embeddings', []],
  ['/count_tokens', []],
]
const ANY_MAXIMUM_FIELD = ['max_tokens', 'max_completion_tokens', 'max_output_tokens']

/** Reads a whole body. `path` is the canonical path of the request. */
export function readRequest(dialect: UsageDialect, path: string, body: Uint8Array): RequestFacts {
  const reader = new RequestReader(PATHS[dialect])
  const facts = isObject(body) ? reader.read(body, maximumFields(path)) : undefined
  return facts ?? unreadRequest(body.length)
}

/** A body that is too large, or is not JSON, is estimated from its length alone. */
export function unreadRequest(length: number, isCompressed = false): RequestFacts {
  const characters = isCompressed ? length * COMPRESSED_LENGTH : length
  return { characters, maximum: undefined, answers: 1, model: undefined, stream: undefined }
}

class RequestReader implements JsonReceiver {
  readonly #scanner: JsonScanner
  readonly #numbers = new Map<string, number>()
  /** What the request says of its model and of streaming; several if it contradicts itself. */
  readonly #models = new Set<string>()
  readonly #streams = new Set<boolean>()
  #prompts = 0
  #images = 0
  /** The length of all images, which the length of all text includes. */
  #imageLength = 0
  /** Of the object that is being read. */
  #source = { type: '', mediaType: '', length: 0 }

  constructor(paths: PathNode) {
    this.#scanner = new JsonScanner(paths, this)
  }

  /** Undefined if the body is not one whole JSON text. */
  read(body: Uint8Array, fields: readonly string[]): RequestFacts | undefined {
    this.#scanner.push(body)
    if (!this.#scanner.isComplete) return undefined
    return {
      characters: this.#scanner.textLength - this.#imageLength + this.#images * IMAGE_LENGTH,
      maximum: this.maximum(fields),
      answers: this.answers(),
      model: this.model(),
      stream: this.stream(),
    }
  }

  onValue(name: string, value: number | string | boolean): void {
    if (typeof value === 'boolean') this.#streams.add(value)
    else if (typeof value === 'number') this.keepLargest(name, value)
    else if (name === 'source type') this.#source.type = value
    else if (name === 'media type') this.#source.mediaType = value
    else this.#models.add(value)
  }

  onLength(name: string, length: number): void {
    if (name === 'image') this.#imageLength += length
    else if (name === 'data') this.#source.length += length
  }

  onEnd(name: string): void {
    if (name === 'image') this.#images++
    else if (name === 'prompt') this.#prompts++
    else if (name === 'source') this.endSource()
  }

  /** Text and documents count by their length, images do not. */
  private endSource(): void {
    const { type, mediaType, length } = this.#source
    this.#source = { type: '', mediaType: '', length: 0 }
    if (type === 'text' || (type === 'base64' && !mediaType.startsWith('image/'))) return
    this.#images++
    this.#imageLength += length
  }

  /** Of a field that is there twice the API may read either. */
  private keepLargest(name: string, value: number): void {
    if (!Number.isInteger(value) || value <= 0) return
    this.#numbers.set(name, Math.max(this.#numbers.get(name) ?? 0, Math.min(value, MAXIMUM_MAX)))
  }

  private maximum(fields: readonly string[]): number | undefined {
    if (fields.length === 0) return 0
    const asked = fields.flatMap((field) => this.#numbers.get(field) ?? [])
    return asked.length === 0 ? undefined : Math.max(...asked)
  }

  /** Of two models the API may read either: then none is known, and the dearest is assumed. */
  private model(): string | undefined {
    const [model = '', ...others] = this.#models
    return model === '' || others.length > 0 ? undefined : model
  }

  private stream(): boolean | undefined {
    const [stream = false, ...others] = this.#streams
    return others.length > 0 ? undefined : stream
  }

  private answers(): number {
    const choices = this.#numbers.get('choices') ?? 1
    return Math.min(ANSWERS_MAX, choices * Math.max(1, this.#prompts))
  }
}

function maximumFields(path: string): readonly string[] {
  const plain = path.toLowerCase().replace(/\/$/, '')
  const found = MAXIMUM_FIELDS.find(([ending]) => plain.endsWith(ending))
  return found === undefined ? ANY_MAXIMUM_FIELD : found[1]
}

/** Whether the first byte that is no space begins an object. */
function isObject(body: Uint8Array): boolean {
  return body.find((byte) => byte > 0x20) === 0x7b
}
