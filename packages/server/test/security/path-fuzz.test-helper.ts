/** Generates request targets of an attacker from a seed; and servers that parse them. */

/** A small generator of numbers (mulberry32), so that a seed determines the targets. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const ROUTES = ['/login', '/login', '/login', '/admin/users', '/admin/users/7', '/v1/orders/42']
  .concat([
    '/admin',
    '/v1/orders',
    '/v1/orders/42/items',
    '/',
    '/other',
    '/loginx',
    '/xlogin',
    '/v1',
  ])
  .concat(['/v1/login', '/administrator/x', '/v1/orders/login', '/admin/login', '/v1/orders/42'])

/** Text that is inserted into a path. Most of it must be refused; some of it has no effect. */
const INSERTED = ['/', '//', '/./', '/../', '/.', '/..', '%2f', '%2F', '%5c', '\\', '%2e', '%2e%2e']
  .concat(['/%2e%2e/', '/%2e/', '/.%2e/', '.', '..', '...', ';', ';x=1', '%3b', '%3Bx', '%00'])
  .concat([
    '%0a',
    '%0d%0a',
    '%7f',
    '%c2%85',
    '%20',
    '+',
    '%2b',
    '%',
    '%2',
    '%g1',
    '%u002f',
    '%%32f',
  ])
  .concat(['%252f', '%252e%252e', '%25', '%2541', '%2525', '%c0%af', '%c0%ae', '%e0%80%af', '%ff'])
  .concat([
    '%c3%a9',
    '%C3%89',
    '%e2%84%aa',
    '%c5%bf',
    '%c4%b0',
    '%ef%bc%8f',
    '%e2%80%8b',
    '%ed%a0%80',
  ])
  .concat([
    'login',
    'admin',
    '/login',
    '/admin/',
    'v1',
    '/v1/orders/',
    '~',
    '!',
    '@',
    ':',
    '*',
    "'",
  ])
  .concat([
    '|',
    '[',
    ']',
    '{',
    '}',
    '^',
    '`',
    '"',
    '<',
    '>',
    '%7C',
    '%5b',
    '%40',
    '%7e',
    ',',
    '&',
    '=',
  ])

/** Text that the HTTP parser already refuses, which ends a connection. */
const REFUSED = [
  '\t',
  ' ',
  '\x00',
  '\x01',
  '\x7f',
  '\xe9',
  '\xff',
  '\xc3\xa9',
  '#',
  '#/login',
  '\x0b',
]

const QUERIES = [
  '?',
  '?x',
  '?x=/../login',
  '?/login',
  '?;a',
  '??',
  '?a=%2f',
  '?%00',
  '?x=1&_method=GET',
].concat(['?http://a.example/admin/x', '?\\', '?a[]=1'])

const ORIGINS = ['http://a.example', 'HTTP://A.EXAMPLE', 'https://a.example', 'http://a.example:80']
  .concat(['http://b.example', 'http://u@a.example', 'http://a.example\\', 'http:/', 'http:', 'x:'])
  .concat(['//a.example', 'ftp://a.example', 'http://a.example.', 'http:///', 'http://'])

/** Generates so many targets; the same seed gives the same ones. */
export function fuzzTargets(count: number, seed: number): string[] {
  const random = randomOf(seed)
  const below = (most: number) => Math.floor(random() * most)
  const oneOf = (list: readonly string[]) => list[below(list.length)] ?? ''
  const insert = (text: string, what: string) => {
    const at = 1 + below(text.length)
    return text.slice(0, at) + what + text.slice(at)
  }
  /** One character as `%6c` or `%6C`, or encoded twice. */
  const encode = (text: string) => {
    const at = below(text.length)
    const hex = text.charCodeAt(at).toString(16).padStart(2, '0')
    const digits = random() < 0.5 ? hex : hex.toUpperCase()
    const percent = random() < 0.1 ? '%25' : '%'
    return `${text.slice(0, at)}${percent}${digits}${text.slice(at + 1)}`
  }
  const capitals = (text: string) =>
    text.replace(/[a-z]/g, (letter) => (random() < 0.3 ? letter.toUpperCase() : letter))

  const mutate = (text: string): string => {
    const kind = random()
    if (kind < 0.35) return encode(text)
    if (kind < 0.5) return capitals(text)
    if (kind < 0.6) return `${text}/`
    if (kind < 0.99) return insert(text, oneOf(INSERTED))
    return insert(text, oneOf(REFUSED))
  }
  return Array.from({ length: count }, () => {
    let path = oneOf(ROUTES)
    for (let left = 1 + below(4); left > 0; left--) path = mutate(path)
    if (random() < 0.15) path += oneOf(QUERIES)
    const target = random() < 0.03 ? oneOf(ORIGINS) + path : path
    // A space at the end of a target is not part of it.
    return target.replace(/ +$/, '')
  })
}

export type Route = 'login' | 'admin' | 'orders' | 'other'

/** The routes of the upstream, for a path that it has normalised in its own way. */
function routeOf(path: string): Route {
  const [, first = '', second = '', third = '', ...more] = path.split('/')
  if (first === 'login' && path === '/login') return 'login'
  if (first === 'admin' && second !== '') return 'admin'
  const isOrder = first === 'v1' && second === 'orders' && third !== '' && more.length === 0
  return isOrder ? 'orders' : 'other'
}

/** Serves a path unchanged, without decoding it. */
export function routeOfRaw(url: string): Route {
  return routeOf(url.replace(/\?.*$/, ''))
}

/** Serves the path of a standard URL, decoded, in any case, with one slash at the end. */
export function routeOfStandard(url: string): Route {
  const { pathname } = new URL(`http://a.example${url}`)
  return routeOf(dropSlash(decodeURIComponent(pathname).toLowerCase()))
}

/**
 * Serves the most lenient reading of a path: decoded twice, into any bytes; backslashes as slashes;
 * nothing after a semicolon or a zero byte; repeated slashes as one; dots resolved.
 */
export function routeOfCareless(url: string): Route {
  const decoded = decode(decode(url.replace(/[?#].*$/s, '')))
    .replace(/\0.*$/s, '')
    .replaceAll('\\', '/')
    .toLowerCase()
  const resolved: string[] = []
  const parts = decoded.split('/').map((part) => part.replace(/;.*$/s, ''))
  for (const part of parts) {
    if (part === '..') resolved.pop()
    else if (part !== '' && part !== '.') resolved.push(part)
  }
  return routeOf(dropSlash(`/${resolved.join('/')}`))
}

function decode(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) =>
    Buffer.from(run.replaceAll('%', ''), 'hex').toString(),
  )
}

function dropSlash(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path
}
