/** Parses the fields of an upstream that say how the usage of its calls is read and priced. */
import {
  reportAt,
  fieldOf,
  isWithin,
  type Located,
  locateEntry,
  type MapNode,
  readAnyMap,
  readNumber,
  readOptional,
  readRequired,
} from '@sluice/core/config-reader'
import type { TokenPrices, UsageConfig } from './config.js'
import { hideLongText, readFields } from './fields.js'
import { readInteger, readWord } from './values.js'

export const USAGE_FIELDS = ['usage', 'defaultOutput', 'prices', 'onExhausted'] as const

const DIALECTS = ['openai', 'anthropic'] as const
const ON_EXHAUSTED = ['continue', 'stop'] as const
const OUTPUT = { least: 1, most: 10_000_000 }
/** Most answers are shorter; the ratio of used to estimated tokens corrects it. */
const OUTPUT_DEFAULT = 1024
const MODELS = { items: 'models', most: 1000 }
const MODEL_LENGTH_MAX = 256
const PRICE_MAX = 1_000_000
/** Smaller steps than millionths would not survive arithmetic with fractions. */
const PRICE_DIGITS = 6
const ACCEPTED_PRICE = `money for a million tokens, a number from 0 to ${PRICE_MAX} with up to ${PRICE_DIGITS} decimals`
const ACCEPTED_MODEL = `the name of a model, 1 to ${MODEL_LENGTH_MAX} characters, with * at its end or not at all`

/** The usage fields of an upstream; undefined if it has none. */
export function readUsage(upstream: Located<MapNode>): UsageConfig | undefined {
  const dialect = readOptional(upstream, 'usage', (located) => readWord(located, DIALECTS))
  const defaultOutput = readOptional(upstream, 'defaultOutput', (located) =>
    readInteger(located, OUTPUT),
  )
  const prices = readOptional(upstream, 'prices', readPrices)
  const onExhausted = readOptional(upstream, 'onExhausted', (located) =>
    readWord(located, ON_EXHAUSTED),
  )
  if (fieldOf(upstream, 'usage') === undefined) requireUsage(upstream)
  if (dialect === undefined) return undefined
  return {
    dialect,
    defaultOutput: defaultOutput ?? OUTPUT_DEFAULT,
    prices: prices ?? new Map(),
    onExhausted: onExhausted ?? 'continue',
  }
}

function requireUsage(upstream: Located<MapNode>): void {
  const other = USAGE_FIELDS.find((key) => fieldOf(upstream, key) !== undefined)
  if (other === undefined) return
  const accepted = `openai or anthropic; without usage no answer is read, and ${other} does nothing`
  readRequired(upstream, 'usage', { accepted, read: () => undefined })
}

function readPrices(located: Located): ReadonlyMap<string, TokenPrices> | undefined {
  const accepted = 'a map of models to prices, such as { "gpt-5*": { input: 1.25, output: 10 } }'
  const map = readAnyMap(hideLongText(located), accepted)
  if (map === undefined || !isWithin(located, map.node.entries.size, MODELS)) return undefined
  if (map.node.entries.size === 0) {
    return reportAt(located, 'empty', { accepted: 'at least one model; no key for no prices' })
  }
  const prices = new Map<string, TokenPrices>()
  for (const entry of map.node.entries.values()) {
    const { at, key } = entry
    const isModel = key.length > 0 && key.length <= MODEL_LENGTH_MAX && !/\*./.test(key)
    const found = `a name of ${key.length} characters`
    if (!isModel) reportAt(map, 'bad-key', { at, found, accepted: ACCEPTED_MODEL })
    const price = readPricesOfModel(locateEntry(map, entry))
    if (price !== undefined) prices.set(key, price)
  }
  return prices
}

function readPricesOfModel(located: Located): TokenPrices | undefined {
  const map = readFields(located, ['input', 'output', 'cached'])
  if (map === undefined) return undefined
  const input = readRequired(map, 'input', { accepted: ACCEPTED_PRICE, read: readPrice })
  const output = readRequired(map, 'output', { accepted: ACCEPTED_PRICE, read: readPrice })
  const cached = readOptional(map, 'cached', readPrice)
  if (input === undefined || output === undefined) return undefined
  return { input, output, cached: cached ?? input }
}

function readPrice(located: Located): number | undefined {
  const price = readNumber(located, ACCEPTED_PRICE)
  if (price === undefined) return undefined
  const isExact = Number(price.toFixed(PRICE_DIGITS)) === price
  if (price >= 0 && price <= PRICE_MAX && isExact) return price
  return reportAt(located, 'bad-number', { accepted: ACCEPTED_PRICE })
}
