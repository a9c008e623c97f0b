/** Reads lists page by page. */

interface CursorPage<Item, Cursor> {
  readonly items: readonly Item[]
  /** Where the next page begins; null if there is none. */
  readonly next: Cursor | null
}

interface PageRequest<Cursor> {
  /** Undefined for the first page. */
  readonly from: Cursor | undefined
  /** The most items in total, and in one page. */
  readonly max: number
  readonly page: number
}

/** Reads as many items as requested, or all. Bounded, even if the server's list never ends. */
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
