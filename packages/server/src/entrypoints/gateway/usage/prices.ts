/** Computes the money that a call costs, in whole millionths. */
import type { TokenPrices } from '../../../config/config.js'
import type { TokenUsage } from './dialects.js'

/** Decimals that prices have; the sum is rounded to them, because 0.07 · 100 is above 7. */
const DIGITS = 6

export class PriceTable {
  readonly #exact: ReadonlyMap<string, TokenPrices>
  /** Beginnings of names, the longest first. */
  readonly #prefixes: readonly (readonly [prefix: string, prices: TokenPrices])[]
  readonly #dearest: TokenPrices

  /** By model, or the beginning of its name and `*`. */
  constructor(prices: ReadonlyMap<string, TokenPrices>) {
    this.#exact = prices
    this.#prefixes = [...prices]
      .flatMap(([name, each]) => (name.endsWith('*') ? [[name.slice(0, -1), each] as const] : []))
      .toSorted(([a], [b]) => b.length - a.length)
    const all = [...prices.values()]
    this.#dearest = {
      input: Math.max(...all.map(({ input }) => input)),
      output: Math.max(...all.map(({ output }) => output)),
      cached: Math.max(...all.map(({ cached }) => cached)),
    }
  }

  /** A model that is not listed costs what the dearest does: no name makes a call cheaper. */
  pricesOf(model: string | undefined): TokenPrices {
    if (model === undefined) return this.#dearest
    const prefixed = this.#prefixes.find(([prefix]) => model.startsWith(prefix))
    return this.#exact.get(model) ?? prefixed?.[1] ?? this.#dearest
  }

  /** Rounded up. A price for a million tokens is the same number of millionths for one. */
  spendOf(model: string | undefined, { input, cached, output }: SpentTokens): number {
    const prices = this.pricesOf(model)
    const uncached = Math.max(0, input - cached)
    const spend = uncached * prices.input + cached * prices.cached + output * prices.output
    return Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(Number(spend.toFixed(DIGITS))))
  }
}

type SpentTokens = Pick<TokenUsage, 'input' | 'cached' | 'output'>
