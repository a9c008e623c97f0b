/**
 * The names under which metrics, logs and statistics show limits of the configuration, and what
 * they count by. Keys and values of Envoy may be any text; these names are printable ASCII without
 * spaces, and not longer than what stores and logs of statistics have room for.
 */
import { formatHash, hashTexts, sipKey } from '@sluice/core'

/** Longer paths end with a hash of the whole. */
const ID_LENGTH_MAX = 200
const ATTRIBUTE_LENGTH_MAX = 64
/** As many attributes as a rule counts by; what exceeds them is shown as one. */
const ATTRIBUTES_MAX = 8
const OTHER_ATTRIBUTES = 'others'

/** Only makes long names differ: no counter is named with it. */
const NAME_KEY = sipKey(new Uint8Array(16))

/** The rule id of a limit; two paths have two ids. */
export function limitId(path: string): string {
  const id = printable(path)
  if (id.length <= ID_LENGTH_MAX) return id
  return `${id.slice(0, ID_LENGTH_MAX)}~${formatHash(hashTexts(NAME_KEY, [path]))}`
}

/** The attributes that a counter of these keys is shown by. */
export function attributeNames(keys: readonly string[]): readonly string[] {
  const names: string[] = []
  for (let i = 0; i < keys.length; i++) {
    if (names.length === ATTRIBUTES_MAX - 1 && i + 1 < keys.length) {
      names.push(distinctName(OTHER_ATTRIBUTES, names))
      return names
    }
    const key = printable(keys[i] ?? '').slice(0, ATTRIBUTE_LENGTH_MAX)
    names.push(distinctName(key === '' ? '_' : key, names))
  }
  return names
}

/** The values of those attributes. */
export function attributeValues(
  names: readonly string[],
  counter: readonly string[],
): Readonly<Record<string, string>> {
  const isFolded = names.length < counter.length / 2
  const pairs = names.map((name, i) => {
    const isLast = isFolded && i === names.length - 1
    return [name, isLast ? restOf(counter, i) : (counter[2 * i + 1] ?? '')] as const
  })
  // `fromEntries`, because a key may have any name, even `__proto__`.
  return Object.fromEntries(pairs)
}

/** `key`, or `key_2` where that is taken, and so on. */
function distinctName(key: string, taken: readonly string[]): string {
  let name = key
  for (let count = 2; taken.includes(name); count++) name = `${key}_${count}`
  return name
}

/** The name of a limit in headers, which show printable ASCII without quotes. */
export function policyName(name: string): string {
  return name.replaceAll(/[^\x20-\x7e]|["\\]/g, '_')
}

function printable(text: string): string {
  return text.replaceAll(/[^\x21-\x7e]/g, (char) => {
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/** The values from one place on, with their keys. */
function restOf(counter: readonly string[], place: number): string {
  const pairs: string[] = []
  for (let i = 2 * place; i < counter.length; i += 2) {
    pairs.push(`${counter[i] ?? ''}=${counter[i + 1] ?? ''}`)
  }
  return pairs.join(' ')
}
