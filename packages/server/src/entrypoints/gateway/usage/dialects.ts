/**
 * How the APIs of language models report what a call used: where in an answer the tokens stand, and
 * how an error looks in a stream.
 */
import { compilePaths, type PathNode, type WantedValue, type WantedValues } from './json-scanner.js'

export type UsageDialect = 'openai' | 'anthropic'

/** The tokens of one call. */
export interface TokenUsage {
  /** All input, cached or not. */
  readonly input: number
  /** The part of the input that was read from a cache. */
  readonly cached: number
  readonly output: number
  /** The part of the output that is reasoning, as far as it is reported. */
  readonly reasoning: number
}

/** Numbers that an answer reports, by the names of the dialect's table. */
export type ReportedTokens = Readonly<Partial<Record<TokenField, number>>>

type TokenField = 'input' | 'cached' | 'written' | 'output' | 'begun' | 'reasoning'

/** What an answer reported before it broke off. */
interface PartialUsage {
  /** Undefined: not reported. */
  readonly input: number | undefined
  readonly output: number
}

export interface DialectReader {
  /** Where the tokens and the text of an answer stand, as JSON and as the data of an event. */
  readonly paths: PathNode
  /** The usage of the whole call; undefined as long as only a part of it is reported. */
  finalUsage(reported: ReportedTokens): TokenUsage | undefined
  /** What is known of an answer that broke off. */
  partialUsage(reported: ReportedTokens): PartialUsage
  /** The last event of a stream that is ended because the budget is used up. */
  stopEvent(message: string): string
}

const tokens = (name: TokenField): WantedValue => ({ kind: 'number', name })
/** Text that the model wrote. */
const WRITTEN: WantedValue = { kind: 'length', name: 'text' }

/** The same wanted values below another field. */
function below(field: string, values: WantedValues): WantedValues {
  return Object.fromEntries(
    Object.entries(values).map(([path, each]) => [`${field}.${path}`, each]),
  )
}

/** Chat Completions and Embeddings say prompt and completion, Responses input and output. */
const OPENAI_USAGE: WantedValues = {
  'usage.prompt_tokens': tokens('input'),
  'usage.prompt_tokens_details.cached_tokens': tokens('cached'),
  'usage.completion_tokens': tokens('output'),
  'usage.completion_tokens_details.reasoning_tokens': tokens('reasoning'),
  'usage.input_tokens': tokens('input'),
  'usage.input_tokens_details.cached_tokens': tokens('cached'),
  'usage.output_tokens': tokens('output'),
  'usage.output_tokens_details.reasoning_tokens': tokens('reasoning'),
}

const OPENAI_MESSAGE: WantedValues = {
  content: WRITTEN,
  refusal: WRITTEN,
  reasoning: WRITTEN,
  reasoning_content: WRITTEN,
  'function_call.arguments': WRITTEN,
  'tool_calls.*.function.arguments': WRITTEN,
}

const OPENAI: DialectReader = {
  paths: compilePaths({
    ...OPENAI_USAGE,
    // An event of the Responses API that ends a response holds all of it.
    ...below('response', OPENAI_USAGE),
    ...below('choices.*.delta', OPENAI_MESSAGE),
    ...below('choices.*.message', OPENAI_MESSAGE),
    'choices.*.text': WRITTEN,
    // Text, reasoning and arguments of the Responses API come in events with this field; later
    // events repeat the whole under others.
    delta: WRITTEN,
    'output.*.content.*.text': WRITTEN,
    'output.*.arguments': WRITTEN,
    'output.*.summary.*.text': WRITTEN,
  }),
  finalUsage({ input, cached = 0, output, reasoning = 0 }) {
    if (input === undefined && output === undefined) return undefined
    return { input: input ?? 0, cached, output: output ?? 0, reasoning }
  },
  partialUsage: () => ({ input: undefined, output: 0 }),
  stopEvent(message) {
    const error = { message, type: 'insufficient_quota', param: null, code: 'budget_exhausted' }
    return `data: ${JSON.stringify({ error })}\n\n`
  },
}

const ANTHROPIC_INPUT: WantedValues = {
  'usage.input_tokens': tokens('input'),
  'usage.cache_read_input_tokens': tokens('cached'),
  'usage.cache_creation_input_tokens': tokens('written'),
}

const ANTHROPIC: DialectReader = {
  paths: compilePaths({
    ...ANTHROPIC_INPUT,
    'usage.output_tokens': tokens('output'),
    // A stream begins with the input, and with the few tokens of output that it has by then.
    ...below('message', { ...ANTHROPIC_INPUT, 'usage.output_tokens': tokens('begun') }),
    'content.*.text': WRITTEN,
    'content.*.thinking': WRITTEN,
    'delta.text': WRITTEN,
    'delta.thinking': WRITTEN,
    'delta.partial_json': WRITTEN,
  }),
  finalUsage({ output, ...reported }) {
    if (output === undefined) return undefined
    return {
      input: anthropicInput(reported) ?? 0,
      cached: reported.cached ?? 0,
      output,
      reasoning: 0,
    }
  },
  partialUsage: (reported) => ({
    input: anthropicInput(reported),
    output: reported.begun ?? 0,
  }),
  stopEvent(message) {
    const data = { type: 'error', error: { type: 'rate_limit_error', message } }
    return `event: error\ndata: ${JSON.stringify(data)}\n\n`
  },
}

/** Anthropic reports the input that was read from a cache, or written to it, apart. */
function anthropicInput({ input, cached = 0, written = 0 }: ReportedTokens): number | undefined {
  return input === undefined ? undefined : input + cached + written
}

export const DIALECTS: Readonly<Record<UsageDialect, DialectReader>> = {
  openai: OPENAI,
  anthropic: ANTHROPIC,
}
