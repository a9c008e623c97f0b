/** A client has no more frames under way than fit its windows; this is several times as many. */
const RESETS_MAX = 4_096

/**
 * The streams that this side has reset. The client may have sent frames of them before it knew, so
 * these are ignored, where those of other closed streams are errors. Of the oldest only the highest
 * number is kept: frames of all streams up to it are ignored.
 */
export class OwnResets {
  readonly #ids = new Set<number>()
  #floor = 0

  add(id: number): void {
    this.#ids.add(id)
    if (this.#ids.size <= RESETS_MAX) return
    const oldest = this.#ids.values().next().value ?? 0
    this.#ids.delete(oldest)
    this.#floor = Math.max(this.#floor, oldest)
  }

  has(id: number): boolean {
    return id <= this.#floor || this.#ids.has(id)
  }
}
