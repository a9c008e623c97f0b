/** The overrides of one rule, up to 100,000: found by id, and paged in the order of ids. */
import { SortedIds } from '../store/sorted-ids.js'
import type { CatalogOverride } from './rule-catalog.js'

export class OverrideList {
  readonly #byId = new Map<string, CatalogOverride>()
  /** Built for the first page: most rules are never paged. */
  #sorted: SortedIds | undefined

  get size(): number {
    return this.#byId.size
  }

  get(id: string): CatalogOverride | undefined {
    return this.#byId.get(id)
  }

  set(override: CatalogOverride): void {
    this.#byId.set(override.id, override)
    this.#sorted?.add(override.id)
  }

  delete(id: string): void {
    if (this.#byId.delete(id)) this.#sorted?.delete(id)
  }

  all(): Iterable<CatalogOverride> {
    return this.#byId.values()
  }

  page(after: string | undefined, limit: number): readonly CatalogOverride[] {
    this.#sorted ??= this.sort()
    return this.#sorted.page(after, limit).flatMap((id) => this.#byId.get(id) ?? [])
  }

  private sort(): SortedIds {
    const sorted = new SortedIds()
    // Sorted first, so that each is appended.
    for (const id of [...this.#byId.keys()].sort()) sorted.add(id)
    return sorted
  }
}
