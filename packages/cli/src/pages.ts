/** Lists that a server tells page by page. */

interface Page<Item, Cursor> {
  readonly items: readonly Item[]
  /** Where the next page begins; null: there is none. */
  readonly next: Cursor | null
}

interface Wanted<Cursor> {
  /** Undefined: from the beginning. */
  readonly from: Cursor | undefined
  /** How many in all, and at most in one page. */
  readonly most: number
  readonly page: number
}

/** As many as are wanted, or all there are. A server that never ends its list does not keep us. */
export async function gather<Item, Cursor>(
  { from, most, page }: Wanted<Cursor>,
  ask: (from: Cursor | undefined, limit: number) => Promise<Page<Item, Cursor>>,
): Promise<Page<Item, Cursor>> {
  const items: Item[] = []
  let next = from
  while (items.length < most) {
    const told = await ask(next, Math.min(page, most - items.length))
    for (const item of told.items) items.push(item)
    if (told.next === null || told.items.length === 0) return { items, next: null }
    next = told.next
  }
  return { items, next: next ?? null }
}
