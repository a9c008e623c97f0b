/** Lists that a server tells page by page. */

interface CursorPage<Item, Cursor> {
  readonly items: readonly Item[]
  /** Where the next page begins; null: there is none. */
  readonly next: Cursor | null
}

interface PageRequest<Cursor> {
  /** Undefined: from the beginning. */
  readonly from: Cursor | undefined
  /** How many in all, and at most in one page. */
  readonly max: number
  readonly page: number
}

/** As many as are wanted, or all there are. A server that never ends its list does not keep us. */
export async function paginate<Item, Cursor>(
  { from, max, page }: PageRequest<Cursor>,
  fetchPage: (from: Cursor | undefined, limit: number) => Promise<CursorPage<Item, Cursor>>,
): Promise<CursorPage<Item, Cursor>> {
  const items: Item[] = []
  let next = from
  while (items.length < max) {
    const result = await fetchPage(next, Math.min(page, max - items.length))
    for (const item of result.items) items.push(item)
    if (result.next === null || result.items.length === 0) return { items, next: null }
    next = result.next
  }
  return { items, next: next ?? null }
}
