/** Counts at how many looks in a row something was found: what passes at once is no alert. */

export class LookStreaks {
  readonly #least: number
  /** By subject. */
  #looks: ReadonlyMap<string, number> = new Map()

  /** `least`: the looks in a row from which on something counts. */
  constructor(least: number) {
    this.#least = least
  }

  /** Takes in what one look found; returns what has been found often enough. */
  look<Found extends { readonly subject: string }>(found: readonly Found[]): readonly Found[] {
    const before = this.#looks
    this.#looks = new Map(found.map(({ subject }) => [subject, (before.get(subject) ?? 0) + 1]))
    return found.filter(({ subject }) => (this.#looks.get(subject) ?? 0) >= this.#least)
  }
}
