/**
 * Estimates the tokens of a call to a language model before it is made, and measures how far such
 * estimates are from what the calls really used.
 */

/** What is known of a call before it is made. */
export interface TokenEstimate {
  /** The characters of everything that is sent as input. */
  readonly characters: number
  /** The most tokens that the call lets the model answer with. @default 0 */
  readonly maximum?: number | undefined
  /** The smallest limit that the estimate is taken from: more could never pass. @default none */
  readonly limit?: number | undefined
  /** Tokens used for each estimated one by calls like this: see `EstimateRatios`. @default 1 */
  readonly ratio?: number | undefined
}

/** English text has about four characters a token, code and other languages have fewer. */
const CHARACTERS_PER_TOKEN = 4

/**
 * Estimates the tokens of a call: its characters over four plus the most it may be answered with,
 * times the ratio, and never more than the limit. At least 1.
 */
export function estimateTokens({
  characters,
  maximum = 0,
  limit = Number.MAX_SAFE_INTEGER,
  ratio = 1,
}: TokenEstimate): number {
  const tokens = Math.ceil((Math.ceil(characters / CHARACTERS_PER_TOKEN) + maximum) * ratio)
  return Math.max(1, Math.min(tokens, limit))
}

interface MovingSums {
  readonly estimated: number
  readonly used: number
}

/** What one call leaves of the sums before it: the last twenty calls or so decide the ratio. */
const KEPT_SHARE = 0.95
/** One strange call must not make the next estimates useless. */
const RATIO_MIN = 0.05
const RATIO_MAX = 4
/** Most names with a ratio; the one that was recorded longest ago goes first. About 100 KB. */
const NAMES_MAX = 1000

/**
 * The moving ratio of used to estimated tokens, by a name such as a rule's id or a model's. Large
 * calls weigh more than small ones, as they do in a budget.
 */
export class EstimateRatios {
  readonly #sums = new Map<string, MovingSums>()

  /** The ratio of a name; 1 if nothing is known of it. */
  ratioOf(name: string): number {
    const sums = this.#sums.get(name)
    if (sums === undefined) return 1
    return Math.min(RATIO_MAX, Math.max(RATIO_MIN, sums.used / sums.estimated))
  }

  /**
   * Records what a call used. `estimated` is its estimate without ratio and limit: with them the
   * ratio would correct itself.
   */
  record(name: string, estimated: number, used: number): void {
    if (!(estimated > 0) || !(used >= 0)) return
    const before = this.#sums.get(name) ?? { estimated: 0, used: 0 }
    this.#sums.delete(name)
    this.#sums.set(name, {
      estimated: before.estimated * KEPT_SHARE + estimated,
      used: before.used * KEPT_SHARE + used,
    })
    const [oldest] = this.#sums.keys()
    if (this.#sums.size > NAMES_MAX && oldest !== undefined) this.#sums.delete(oldest)
  }
}
