/** What somebody threw, for people: an error by its message alone. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
