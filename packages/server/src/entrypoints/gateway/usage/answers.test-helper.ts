/** Answers of language models, as their APIs send them. */
import type { TokenUsage, UsageDialect } from './dialects.js'
import type { AnswerForm } from './usage-reader.js'

export interface SampleAnswer {
  readonly name: string
  readonly dialect: UsageDialect
  readonly form: AnswerForm
  readonly text: string
  /** Undefined: the answer reports none. */
  readonly usage: TokenUsage | undefined
  /** The length of the text that the model wrote, in bytes. */
  readonly written: number
}

/** Joins events; those of OpenAI have no names. */
export function eventsOf(events: readonly object[], newline = '\n'): string {
  return events
    .map((data) => {
      const type = 'type' in data ? [`event: ${String(data.type)}`] : []
      return [...type, `data: ${JSON.stringify(data)}`, '', ''].join(newline)
    })
    .join('')
}

const WORDS = ['Sluices ', 'stehen “offen” ', '— ', '水门 ', '🚰\n', '"usage":{"output_tokens":9}']
const WRITTEN = Buffer.byteLength(WORDS.join(''))

const chunk = (delta: object, more: object = {}) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  model: 'gpt-4o-mini',
  choices: [{ index: 0, delta, finish_reason: null }],
  usage: null,
  ...more,
})

const CHAT_USAGE = {
  prompt_tokens: 1200,
  completion_tokens: 345,
  total_tokens: 1545,
  prompt_tokens_details: { cached_tokens: 1024, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 64, accepted_prediction_tokens: 0 },
}

const chatEvents = [
  chunk({ role: 'assistant', content: '' }),
  ...WORDS.map((content) => chunk({ content })),
  chunk({}, { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
]

const RESPONSES_USAGE = {
  input_tokens: 36,
  input_tokens_details: { cached_tokens: 12 },
  output_tokens: 87,
  output_tokens_details: { reasoning_tokens: 40 },
  total_tokens: 123,
}

const outputOf = (text: string) => [
  { type: 'reasoning', summary: [] },
  { type: 'message', role: 'assistant', content: [{ type: 'output_text', text }] },
]

const responsesEvents = [
  { type: 'response.created', response: { id: 'resp_1', status: 'in_progress', usage: null } },
  ...WORDS.map((delta) => ({ type: 'response.output_text.delta', item_id: 'msg_1', delta })),
  { type: 'response.output_text.done', text: WORDS.join('') },
  {
    type: 'response.completed',
    response: { id: 'resp_1', output: outputOf(WORDS.join('')), usage: RESPONSES_USAGE },
  },
]

const messagesEvents = [
  {
    type: 'message_start',
    message: {
      id: 'msg_1',
      model: 'claude-opus-4',
      content: [],
      usage: {
        input_tokens: 25,
        cache_creation_input_tokens: 100,
        cache_read_input_tokens: 2000,
        output_tokens: 1,
      },
    },
  },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'ping' },
  ...WORDS.map((text) => ({
    type: 'content_block_delta',
    index: 0,
    delta: { type: 'text_delta', text },
  })),
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 7 } },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 315 } },
  { type: 'message_stop' },
]

const MESSAGES_USAGE = { input: 2125, cached: 2000, output: 315, reasoning: 0 }
const chatTokens = { input: 1200, cached: 1024, output: 345, reasoning: 64 }
const responsesTokens = { input: 36, cached: 12, output: 87, reasoning: 40 }

export const SAMPLES: readonly SampleAnswer[] = [
  {
    name: 'a chat completion',
    dialect: 'openai',
    form: 'json',
    text: JSON.stringify(
      {
        id: 'chatcmpl-1',
        choices: [{ index: 0, message: { role: 'assistant', content: WORDS.join('') } }],
        usage: CHAT_USAGE,
      },
      undefined,
      2,
    ),
    usage: chatTokens,
    written: WRITTEN,
  },
  {
    name: 'a streamed chat completion with usage',
    dialect: 'openai',
    form: 'events',
    text: `: keep alive\n\n${eventsOf([...chatEvents, { choices: [], usage: CHAT_USAGE }])}data: [DONE]\n\n`,
    usage: chatTokens,
    written: WRITTEN,
  },
  {
    name: 'a streamed chat completion without usage, with lines that end in CR and LF',
    dialect: 'openai',
    form: 'events',
    text: `${eventsOf(chatEvents, '\r\n')}data: [DONE]\r\n\r\n`,
    usage: undefined,
    written: WRITTEN,
  },
  {
    name: 'embeddings',
    dialect: 'openai',
    form: 'json',
    text: JSON.stringify({
      data: [{ embedding: [0.1, -2e-3, 5] }],
      usage: { prompt_tokens: 8, total_tokens: 8 },
    }),
    usage: { input: 8, cached: 0, output: 0, reasoning: 0 },
    written: 0,
  },
  {
    name: 'a response',
    dialect: 'openai',
    form: 'json',
    text: JSON.stringify({
      id: 'resp_1',
      output: outputOf(WORDS.join('')),
      usage: RESPONSES_USAGE,
    }),
    usage: responsesTokens,
    written: WRITTEN,
  },
  {
    name: 'a streamed response',
    dialect: 'openai',
    form: 'events',
    text: eventsOf(responsesEvents),
    usage: responsesTokens,
    written: WRITTEN,
  },
  {
    name: 'a message',
    dialect: 'anthropic',
    form: 'json',
    text: JSON.stringify({
      type: 'message',
      content: [
        { type: 'thinking', thinking: WORDS[0] },
        { type: 'text', text: WORDS.slice(1).join('') },
      ],
      usage: {
        input_tokens: 25,
        cache_creation_input_tokens: 100,
        cache_read_input_tokens: 2000,
        output_tokens: 315,
      },
    }),
    usage: MESSAGES_USAGE,
    written: WRITTEN,
  },
  {
    name: 'a streamed message',
    dialect: 'anthropic',
    form: 'events',
    text: eventsOf(messagesEvents),
    usage: MESSAGES_USAGE,
    written: WRITTEN,
  },
]
