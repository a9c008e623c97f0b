import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canonicalPath, foldPath, matchPattern, type PathPattern, parsePattern } from './path.js'
import { propertyRuns } from '../../../tools/property-runs.js'

function pattern(text: string): PathPattern {
  const parsed = parsePattern(text)
  if ('problem' in parsed) throw new Error(parsed.problem)
  return parsed
}

function problem(text: string): string {
  const parsed = parsePattern(text)
  return 'problem' in parsed ? parsed.problem : 'none'
}

/** Returns the path of a request target as in the tables: the path, or `!` and the reason. */
function canonical(raw: string): string {
  const result = canonicalPath(raw)
  return result.ok ? result.path : `!${result.reason}`
}

describe('a canonical path', () => {
  const unchanged = [
    '/ /login /Login /login/ /a:b,c=d&e+f /caf%C3%A9 /%F0%9F%98%80 /a%20b /what%3F%23 /100%25',
    '/100%25/20 /%7C /... /.well-known/x /a.. /..a /*',
  ]
  test.each(unchanged.join(' ').split(' '))('of %j is the path itself', (path) => {
    expect(canonical(path)).toBe(path)
  })

  test.each([
    ['/login?x', '/login'],
    ['/login?x=/../%2f#\\', '/login'],
    ['/?', '/'],
    ['/%6cogin', '/login'],
    ['/%6Cogin', '/login'],
    ['/%7Euser/%2D%5f', '/~user/-_'],
    ['/%40me', '/@me'],
    ['/a%2eb', '/a.b'],
    ['/caf%c3%a9', '/caf%C3%A9'],
    ['/what%3f', '/what%3F'],
    ['/a|b[c]"d', '/a%7Cb%5Bc%5D%22d'],
    ['http://h/login', '/login'],
    ['HTTPS://h.example:8443/login?x', '/login'],
    ['http://[2001:db8::1]:80/login', '/login'],
    ['http://h', '/'],
    ['http://h?x', '/'],
  ])('of %j is %j', (raw, path) => {
    expect(canonical(raw)).toBe(path)
  })

  const refused: readonly (readonly [found: string, raws: string])[] = [
    ['a doubled slash', '//login /login// /a//b http://h//login'],
    ['a dot segment', '/./login /a/../login /.. /a/. http://h/../login'],
    ['a dot segment', '/%2e/login /a/%2e%2E/login /a/.%2e/login /a/%2e./login'],
    ['an encoded "/"', '/login%2f /%2e%2e%2flogin /api%2Fv1/login'],
    ['an encoded "\\"', '/a%5c..%5clogin'],
    ['an encoded ";"', '/login%3bx=1'],
    ['an encoded U+0000', '/login%00'],
    ['an encoded U+000D', '/login%0d%0a'],
    ['an encoded U+007F', '/login%7f'],
    ['an encoded control character', '/login%c2%85'],
    ['"\\"', '/a\\login /..\\login'],
    ['";"', '/login;x=1 /a/..;/login'],
    ['"#"', '/login#x http://h/login#x'],
    ['U+0000', '/login\u0000'],
    ['U+000A', '/login\n'],
    ['U+007F', '/login\u007f'],
    ['U+00E9', '/caf\u00e9'],
    ['U+D800', '/\ud800'],
    ['"%" without two hex digits', '/login% /login%6 /login%zz /login%u002f /%-1'],
    ['a character encoded twice', '/%252f /%25%32%66 /%256cogin /%2525'],
    ['encoded bytes that are not UTF-8', '/%c0%af /%e0%80%af /%c0%ae%c0%ae/ /%ff /%c3 /%a9'],
    ['encoded bytes that are not UTF-8', '/%ed%a0%80 /%f4%90%80%80'],
    ['"', '* login h.example:443 ftp://h/login http:/login http:///login'],
    ['"http://', 'http://user@h/login http://h\\@g/login http://h#/login'],
  ]
  const rows = refused.flatMap(([found, raws]) => raws.split(' ').map((raw) => ({ raw, found })))

  test.each([
    ...rows,
    { raw: '/a b', found: 'U+0020' },
    { raw: ' /login', found: '" /login"' },
    { raw: '', found: '""' },
    { raw: '?x', found: '""' },
  ])('of $raw is refused for $found', ({ raw, found }) => {
    expect(canonical(raw)).toContain(`!found ${found}`)
    expect(canonical(raw)).toContain('; accepted: ')
  })

  test('has at most 8192 characters, before and after encoding', () => {
    expect(canonical(`/${'a'.repeat(8191)}?${'x'.repeat(9000)}`)).toHaveLength(8192)
    expect(canonical(`/${'a'.repeat(8192)}`)).toContain('8193 characters')
    expect(canonical(`/${'%61'.repeat(3000)}`)).toContain('9001 characters')
    expect(canonical(`/${'|'.repeat(3000)}`)).toContain('9001 characters')
  })
})

/** Pieces of paths that bypass naive limits, mixed with harmless ones. */
const pieces = fc.constantFrom(
  ...'/ . .. %2e %2E %2f %5C \\ ; %3b %25 % 2 f 2e | login Login'.split(' '),
  ...'%6c %C3%A9 %c3 %a9 %c0%af %00 %20 ~ %7e :id *'.split(' '),
)
const nasty = fc.array(pieces, { maxLength: 10 }).map((parts) => `/${parts.join('')}`)

describe('every accepted path', () => {
  test('is its own canonical form, and the path that a decoding server serves', () => {
    let accepted = 0
    fc.assert(
      fc.property(nasty, (raw) => {
        const result = canonicalPath(raw)
        if (!result.ok) return
        accepted += 1
        expect(canonical(result.path)).toBe(result.path)
        const served = decodeURIComponent(result.path)
        expect(served).toBe(decodeURIComponent(raw))
        expect(served.split('/')).toHaveLength(raw.split('/').length)
        expect(served).not.toMatch(/\/\/|\/\.{1,2}(\/|$)|[\\;]|\p{Control}/u)
        // A second decoding, by a later server, changes nothing or fails.
        expect(served).not.toMatch(/%[0-9a-f]{2}/i)
        expect(new URL(result.path, 'http://h').pathname).toBe(result.path)
      }),
      { numRuns: propertyRuns(4000) },
    )
    expect(accepted).toBeGreaterThan(propertyRuns(300))
  })

  test('has one form, however its characters were encoded', () => {
    const units = fc.string({
      unit: fc.constantFrom(
        ...Array.from('abZ09-._~!$&\'()*+,=:@ "<>[]^`{|}?#\u00e9\u20ac\u{1f600}'),
      ),
      minLength: 1,
    })
    const choices = fc.infiniteStream(fc.constantFrom('plain', 'lower', 'upper'))
    fc.assert(
      fc.property(units, choices, (text, spelling) => {
        fc.pre(text !== '.' && text !== '..')
        const expected = canonical(`/${encodeURIComponent(text)}`)
        const spelled = Array.from(text, (char) => {
          const bytes = [...new TextEncoder().encode(char)]
          const hex = bytes.map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
          const choice = spelling.next().value
          if (choice === 'plain' && /[!"$->@-~]/.test(char)) return char
          return choice === 'upper' ? hex.toUpperCase() : hex
        })
        expect(canonical(`/${spelled.join('')}`)).toBe(expected)
        expect(decodeURIComponent(expected)).toBe(`/${text}`)
      }),
      { numRuns: propertyRuns(2000) },
    )
  })

  test('or refusal is returned, never thrown', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        for (const raw of [text, `/${text}`, `http://${text}`]) {
          expect(canonical(raw)).toMatch(/^(\/|!found )/)
        }
        expect(problem(`/${text}`)).toMatch(/^(none|found )/)
      }),
      { numRuns: propertyRuns(1000) },
    )
  })
})

describe('a pattern', () => {
  const literal = (text: string) => ({ literal: text })

  test.each<[text: string, segments: PathPattern['segments'], wildcard: boolean]>([
    ['/', [literal('')], false],
    ['/*', [], true],
    ['/v1/orders/:id', [literal('v1'), literal('orders'), { param: 'id' }], false],
    ['/a/', [literal('a'), literal('')], false],
    ['/a/*', [literal('a')], true],
    ['/:_a1/*', [{ param: '_a1' }], true],
    ['/models/x:run', [literal('models'), literal('x:run')], false],
    ['/caf%C3%A9', [literal('caf%C3%A9')], false],
    ['/__proto__/constructor', [literal('__proto__'), literal('constructor')], false],
  ])('%j is read', (text, segments, wildcard) => {
    expect(parsePattern(text)).toEqual({ text, segments, wildcard })
  })

  test.each([
    ['', 'begins with "/"'],
    ['*', 'begins with "/"'],
    ['v1/orders', 'begins with "/"'],
    ['http://h/v1', 'begins with "/"'],
    ['/a?b', 'without a query'],
    ['/a/*/b', '"*" only as the whole last segment'],
    ['/a/*/', '"*" only as the whole last segment'],
    ['/a*', '"*" only as the whole last segment'],
    ['/a/**', '"*" only as the whole last segment'],
    ['/*.js', '"*" only as the whole last segment'],
    ['/:', '":" and a name'],
    ['/:1a', '":" and a name'],
    ['/:a-b', '":" and a name'],
    ['/:id:run', '":" and a name'],
    ['/:id?', 'without a query'],
    ['/:id(\\d+)', '"\\"'],
    ['/a//b', 'a doubled slash'],
    ['/a/../b', 'a dot segment'],
    ['/a;b', '";"'],
    ['/caf\u00e9', 'percent-encoded'],
    ['/%6cogin', 'its canonical form "/login"'],
    ['/caf%c3%a9', 'its canonical form "/caf%C3%A9"'],
    ['/{id}', 'its canonical form "/%7Bid%7D"'],
    [`/${'a'.repeat(1024)}`, '1025 characters; accepted: up to 1024'],
    ['/a'.repeat(33), '33 segments; accepted: up to 32'],
  ])('%j is refused in one sentence', (text, part) => {
    expect(problem(text)).toContain(part)
    expect(problem(text)).toMatch(/^found [^\n]*; accepted: [^\n]+$/)
  })

  test('may have 1024 characters and 32 segments', () => {
    expect(pattern(`/${'a'.repeat(1023)}`).segments).toHaveLength(1)
    expect(pattern('/a'.repeat(32)).segments).toHaveLength(32)
    expect(pattern(`${'/a'.repeat(31)}/*`).segments).toHaveLength(31)
  })
})

describe('folding', () => {
  test.each([
    ['/Login', '/login'],
    ['/login/', '/login'],
    ['/LOGIN/', '/login'],
    ['/', '/'],
    ['/a//', '/a/'],
    ['/caf%C3%A9', '/caf%c3%a9'],
    ['', ''],
    ['/\u212aA\u0130', '/\u212aa\u0130'],
  ])('%j gives %j', (path, folded) => {
    expect(foldPath(path)).toBe(folded)
  })
})

describe('matching', () => {
  test.each<[text: string, path: string, loose: boolean, strict: boolean]>([
    ['/login', '/login', true, true],
    ['/login', '/Login', true, false],
    ['/Login', '/login', true, false],
    ['/login', '/login/', true, false],
    ['/login/', '/login', true, false],
    ['/login/', '/login/', true, true],
    ['/login', '/login/x', false, false],
    ['/login', '/logins', false, false],
    ['/', '/', true, true],
    ['/', '/a', false, false],
    ['/a/*', '/a/b', true, true],
    ['/a/*', '/a/b/c/', true, true],
    ['/a/*', '/a', false, false],
    ['/a/*', '/a/', false, false],
    ['/a/*', '/ab', false, false],
    ['/A/*', '/a/b', true, false],
    ['/*', '/', false, false],
    ['/*', '/a', true, true],
    ['/:id', '/', false, false],
    ['/:id', '/a', true, true],
    ['/a/:id', '/a/', false, false],
    ['/a/:id', '/a/b/', true, false],
    ['/a/:id/', '/a/b', true, false],
    ['/a/:id/c', '/a/b/c', true, true],
    ['/a/:id/*', '/a/b', false, false],
    ['/a/:id/*', '/a/b/c', true, true],
    ['/caf%C3%A9', '/caf%C3%A9', true, true],
  ])('%j against %j: loose %j, strict %j', (text, path, loose, strict) => {
    expect(matchPattern(pattern(text), path, false)).toBe(loose)
    expect(matchPattern(pattern(text), path, true)).toBe(strict)
  })

  test('agrees with a regular expression made of the pattern', () => {
    const part = fc.constantFrom('a', 'A', 'b', 'a.b', '%C3%A9')
    const ends = fc.constantFrom('', '/', '/*')
    const texts = fc
      .tuple(fc.array(fc.oneof(part, fc.constant(':p')), { maxLength: 4 }), ends)
      .map(([parts, end]) => parts.map((text) => `/${text}`).join('') + end || '/')
    const paths = fc
      .tuple(fc.array(part, { maxLength: 5 }), fc.constantFrom('', '/'))
      .map(([parts, end]) => parts.map((text) => `/${text}`).join('') + end || '/')
    fc.assert(
      fc.property(texts, paths, fc.boolean(), (text, path, strict) => {
        const bare = (whole: string) => (strict ? whole : whole.replace(/(?<=.)\/$/, ''))
        const source = bare(text)
          .replaceAll('.', '\\.')
          .replaceAll(':p', '[^/]+')
          .replace(/\*$/, '[^/].*')
        const expected = new RegExp(`^${source}$`, strict ? '' : 'i').test(bare(path))
        expect(matchPattern(pattern(text), path, strict)).toBe(expected)
      }),
      { numRuns: propertyRuns(4000) },
    )
  })
})
