/** Names of metrics without the characters that have a meaning in statsd, or in a path. */

const SEPARATORS = /[:|]/g
const IPV4 = /\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}/g

/** Colons, pipes and the dots of IPv4 addresses become `_`. */
export function sanitizeStat(name: string): string {
  // Most names have none of them, and then no pattern runs.
  const plain = name.includes(':') || name.includes('|') ? name.replace(SEPARATORS, '_') : name
  if (!hasAddress(plain)) return plain
  return plain.replace(IPV4, (address) => address.replaceAll('.', '_'))
}

const ZERO = 48
const NINE = 57

/** Whether there is a dot between two digits: without one there is no address. */
function hasAddress(name: string): boolean {
  for (let at = name.indexOf('.', 1); at !== -1; at = name.indexOf('.', at + 1)) {
    if (isDigit(name.charCodeAt(at - 1)) && isDigit(name.charCodeAt(at + 1))) return true
  }
  return false
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE
}
