/**
 * Caches the results of verified tokens by their hash, since verifying a signature costs more than
 * a whole proxied call. The tokens themselves are not stored.
 */

export const GOOD_MAX = 10_000
/** Anyone can create invalid tokens, so few are cached, and for a short time. */
export const BAD_MAX = 1000
export const BAD_FOR_MS = 10_000

interface CacheEntry<Verdict> {
  readonly verdict: Verdict
  readonly untilMs: number
}

export class TokenCache<Good, Bad> {
  readonly #good = new Map<string, CacheEntry<Good>>()
  readonly #bad = new Map<string, CacheEntry<Bad>>()

  get size(): number {
    return this.#good.size + this.#bad.size
  }

  find(id: string, nowMs: number): Good | Bad | undefined {
    return read(this.#good, id, nowMs) ?? read(this.#bad, id, nowMs)
  }

  addGood(id: string, verdict: Good, untilMs: number): void {
    add(this.#good, GOOD_MAX, id, { verdict, untilMs })
  }

  addBad(id: string, verdict: Bad, nowMs: number): void {
    add(this.#bad, BAD_MAX, id, { verdict, untilMs: nowMs + BAD_FOR_MS })
  }

  clear(): void {
    this.#good.clear()
    this.#bad.clear()
  }
}

function read<Verdict>(
  entries: Map<string, CacheEntry<Verdict>>,
  id: string,
  nowMs: number,
): Verdict | undefined {
  const entry = entries.get(id)
  if (entry === undefined) return undefined
  if (nowMs < entry.untilMs) return entry.verdict
  entries.delete(id)
  return undefined
}

function add<Value>(entries: Map<string, Value>, most: number, id: string, value: Value): void {
  entries.delete(id)
  if (entries.size >= most) {
    const [oldest] = entries.keys()
    if (oldest !== undefined) entries.delete(oldest)
  }
  entries.set(id, value)
}
