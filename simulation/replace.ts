/** Replaces a method of the engine; the returned function restores it. */
export function replace<Owner extends object, Name extends keyof Owner>(
  owner: Owner,
  name: Name,
  make: (before: Owner[Name]) => Owner[Name],
): () => void {
  const before = owner[name]
  owner[name] = make(before)
  return () => {
    owner[name] = before
  }
}
