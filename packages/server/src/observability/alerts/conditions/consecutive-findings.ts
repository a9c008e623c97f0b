/** Counts at how many looks in a row something was found: what passes at once is no alert. */

export class ConsecutiveFindings {
  readonly #least: number
  /** By subject. */
  #counts: ReadonlyMap<string, number> = new Map()

  /** `least`: the looks in a row from which on something counts. */
  constructor(least: number) {
    this.#least = least
  }

  /** Takes in what one look found; returns what has been found often enough. */
  record<Item extends { readonly subject: string }>(findings: readonly Item[]): readonly Item[] {
    const previous = this.#counts
    this.#counts = new Map(
      findings.map(({ subject }) => [subject, (previous.get(subject) ?? 0) + 1]),
    )
    return findings.filter(({ subject }) => (this.#counts.get(subject) ?? 0) >= this.#least)
  }
}
