/** Passes only what was found at several ticks in a row: a brief problem is no alert. */

export class ConsecutiveFindings {
  readonly #least: number
  /** By subject. */
  #counts: ReadonlyMap<string, number> = new Map()

  /** `least` is the number of consecutive ticks required. */
  constructor(least: number) {
    this.#least = least
  }

  /** Takes the findings of one tick; returns those found often enough. */
  record<Item extends { readonly subject: string }>(findings: readonly Item[]): readonly Item[] {
    const previous = this.#counts
    this.#counts = new Map(
      findings.map(({ subject }) => [subject, (previous.get(subject) ?? 0) + 1]),
    )
    return findings.filter(({ subject }) => (this.#counts.get(subject) ?? 0) >= this.#least)
  }
}
