/** Whether two values of JSON say the same; the order of keys says nothing. */
export function sameJson(one: unknown, other: unknown): boolean {
  if (one === other) return true
  if (typeof one !== 'object' || typeof other !== 'object') return false
  if (one === null || other === null) return false
  if (Array.isArray(one) || Array.isArray(other)) {
    return Array.isArray(one) && Array.isArray(other) && sameList(one, other)
  }
  const names = Object.keys(one)
  if (names.length !== Object.keys(other).length) return false
  const [ones, others] = [one, other] as readonly Readonly<Record<string, unknown>>[]
  return names.every((name) => Object.hasOwn(other, name) && sameJson(ones?.[name], others?.[name]))
}

function sameList(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one.length === other.length && one.every((item, i) => sameJson(item, other[i]))
}
