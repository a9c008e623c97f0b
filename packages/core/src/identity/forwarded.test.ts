import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { formatAddress } from './address.js'
import { parseForwarded, parseForwardedFor } from './forwarded.js'

const texts = (entries: ReturnType<typeof parseForwarded>) =>
  entries.map((entry) => (entry === undefined ? undefined : formatAddress(entry)))
const forwardedFor = (...lines: string[]) => texts(parseForwardedFor(lines))
const forwarded = (...lines: string[]) => texts(parseForwarded(lines))

const addresses = fc.oneof(fc.ipV4(), fc.ipV6())

describe('X-Forwarded-For', () => {
  test.each<[name: string, lines: string[], expected: (string | undefined)[]]>([
    ['no line has no entries', [], []],
    ['one entry', ['203.0.113.1'], ['203.0.113.1']],
    ['entries keep their order', ['1.1.1.1, 2.2.2.2,3.3.3.3'], ['1.1.1.1', '2.2.2.2', '3.3.3.3']],
    [
      'lines are joined in order',
      ['1.1.1.1', '2.2.2.2, 3.3.3.3'],
      ['1.1.1.1', '2.2.2.2', '3.3.3.3'],
    ],
    ['an empty line is one entry', ['', '1.1.1.1'], [undefined, '1.1.1.1']],
    [
      'empty entries keep their place',
      [',1.1.1.1, ,'],
      [undefined, '1.1.1.1', undefined, undefined],
    ],
    ['a space inside an entry is not trimmed', ['1.1.1.1 2.2.2.2'], [undefined]],
    ['a tab inside an entry is not trimmed', ['1.2.3.4\t5'], [undefined]],
    ['other white space is not trimmed', ['\u00a01.1.1.1', '1.1.1.1\n', '\v1.1.1.1'], Array(3)],
    ['ports are dropped', ['1.1.1.1:80, [::1]:443, 1.1.1.1:0'], ['1.1.1.1', '::1', '1.1.1.1']],
    ['a number after IPv6 is part of it', ['2001:db8::1:80'], ['2001:db8::1:80']],
    ['an obfuscated port is refused', ['1.1.1.1:_x'], [undefined]],
    ['mapped addresses are IPv4', ['::ffff:1.2.3.4, [::ffff:102:304]:1'], ['1.2.3.4', '1.2.3.4']],
    ['a word is not an address', ['unknown, _hidden, true, null'], Array(4)],
    ['quotes are not of this header', ['"1.1.1.1"'], [undefined]],
  ])('%s', (_, lines, expected) => {
    expect(forwardedFor(...lines)).toEqual([...expected])
  })

  test.each([1, 63, 64, 65, 100, 10_000])('with %i entries is read from the last 64', (count) => {
    const all = Array.from({ length: count }, (_, i) => `10.0.${i >> 8}.${i & 255}`)
    expect(forwardedFor(all.join(', '))).toEqual(all.slice(-64))
    expect(forwardedFor(...all)).toEqual(all.slice(-64))
  })

  test('reads the same however it is split into lines', () => {
    const cut = fc.array(fc.tuple(fc.oneof(addresses, fc.constantFrom('', 'x')), fc.boolean()))
    fc.assert(
      fc.property(cut, (entries) => {
        fc.pre(entries.length > 0)
        const whole = entries.map(([entry]) => entry).join(',')
        const lines = entries.reduce(
          (text, [entry, isNewLine]) => text + (text === '' ? '|' : isNewLine ? '|' : ', ') + entry,
          '',
        )
        expect(parseForwardedFor(lines.slice(1).split('|'))).toEqual(parseForwardedFor([whole]))
      }),
    )
  })
})

describe('Forwarded', () => {
  test.each<[name: string, lines: string[], expected: (string | undefined)[]]>([
    ['no line has no entries', [], []],
    ['one element', ['for=192.0.2.43'], ['192.0.2.43']],
    [
      'elements with other parameters',
      ['for=192.0.2.43, for="[2001:db8:cafe::17]";proto=https;by=203.0.113.60'],
      ['192.0.2.43', '2001:db8:cafe::17'],
    ],
    ['lines are joined in order', ['for=1.1.1.1', 'for=2.2.2.2'], ['1.1.1.1', '2.2.2.2']],
    ['names ignore case', ['FOR=1.1.1.1;Proto=http'], ['1.1.1.1']],
    ['ports are dropped', ['for="1.1.1.1:80", for="[::1]:443"'], ['1.1.1.1', '::1']],
    ['obfuscated ports are dropped', ['for="1.1.1.1:_a-b.c_1"'], ['1.1.1.1']],
    ['a quoted value may hold separators', ['host="a,b;for=9.9.9.9";for=1.1.1.1'], ['1.1.1.1']],
    ['a quoted pair is its character', ['for="1.1.1\\.1"'], ['1.1.1.1']],
    ['a quoted quote does not end it', ['host="\\"";for=1.1.1.1'], ['1.1.1.1']],
    [
      'blanks around separators',
      [' for=1.1.1.1 ;\tproto=http , for=2.2.2.2 '],
      ['1.1.1.1', '2.2.2.2'],
    ],
    ['empty pairs are left out', [';for=1.1.1.1;;'], ['1.1.1.1']],
    ['an element without `for`', ['proto=http, for=1.1.1.1'], [undefined, '1.1.1.1']],
    ['an empty element has no `for`', ['for=1.1.1.1,,'], ['1.1.1.1', undefined, undefined]],
    ['unknown and hidden nodes', ['for=unknown, for=_hidden, for="_x:80"'], Array(3)],
    ['IPv6 needs brackets', ['for="2001:db8::1"'], [undefined]],
    ['IPv4 needs none', ['for="[1.1.1.1]"'], [undefined]],
    ['a port is strict', ['for="1.1.1.1:99999", for="1.1.1.1:", for="1.1.1.1:_"'], Array(3)],
    ['a leading zero is no address', ['for=01.1.1.1'], [undefined]],
    ['an empty value is no address', ['for=""'], [undefined]],
    ['mapped addresses are IPv4', ['for="[::ffff:1.2.3.4]"'], ['1.2.3.4']],
  ])('%s', (_, lines, expected) => {
    expect(forwarded(...lines)).toEqual([...expected])
  })

  test.each([
    ['an open quote', 'for="1.1.1.1'],
    ['an open quote that a later hop seems to close', 'for=6.6.6.6;host=", for="[::1]"'],
    ['a backslash at the end', 'for="1.1.1.1\\'],
    ['text after a quote', 'for="1.1.1.1"x'],
    ['no equals sign', 'for'],
    ['no value', 'for='],
    ['no name', '=1.1.1.1'],
    ['a blank before the equals sign', 'for =1.1.1.1'],
    ['a blank after the equals sign', 'for= 1.1.1.1'],
    ['an unquoted port', 'for=1.1.1.1:80'],
    ['an unquoted bracket', 'for=[::1]'],
    ['two values of `for`', 'for=1.1.1.1;For=2.2.2.2'],
    ['a control character in quotes', 'host="\u0000";for=1.1.1.1'],
    ['a control character between', 'for=1.1.1.1\u0001'],
    ['a character beyond ASCII', 'f\u00f6r=1.1.1.1'],
  ])('broken by %s is a single undefined', (_, line) => {
    expect(forwarded(line)).toEqual([undefined])
    expect(forwarded(`for=3.3.3.3, ${line}`)).toEqual([undefined])
    expect(forwarded('for=3.3.3.3', line, 'for=4.4.4.4')).toEqual([undefined])
  })

  test('with many elements is read from the last 64', () => {
    const all = Array.from({ length: 1000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`)
    expect(forwarded(all.map((ip) => `for=${ip}`).join(','))).toEqual(all.slice(-64))
  })

  test('agrees with X-Forwarded-For on the same addresses', () => {
    fc.assert(
      fc.property(fc.array(addresses, { minLength: 1 }), (ips) => {
        const elements = ips.map((ip) => (ip.includes(':') ? `for="[${ip}]"` : `for=${ip}`))
        expect(parseForwarded([elements.join(', ')])).toEqual(parseForwardedFor([ips.join(', ')]))
      }),
      { numRuns: 500 },
    )
  })

  test('never throws on any input', () => {
    const pieces = fc.constantFrom(
      ...'for=;,"\\[]: \t1._\u0000'.split(''),
      'for=1.1.1.1',
      '"[::1]:2"',
    )
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 20 }), (parts) => {
        expect(parseForwarded([parts.join('')]).length).toBeGreaterThan(0)
        expect(parseForwardedFor([parts.join('')]).length).toBeGreaterThan(0)
      }),
      { numRuns: 2000 },
    )
  })
})
