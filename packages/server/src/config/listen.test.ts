import type { Located } from '@sluice/core/config-reader'
import { describe, expect, test } from 'vitest'
import { isLoopback } from '../lib/loopback.js'
import { isClash, readListen } from './listen.js'

function parse(text: string) {
  const spot: Located = {
    node: { kind: 'scalar', at: -1, value: text },
    field: 'f',
    report: () => {},
  }
  return readListen(spot)
}

const clash = (one: string, other: string) => {
  const [a, b] = [parse(one), parse(other)]
  if (a === undefined || b === undefined) throw new Error('no address')
  return isClash(a, b)
}

describe('a listen address', () => {
  test.each([
    ['127.0.0.1:8080', '127.0.0.1', 8080],
    ['0.0.0.0:0', '0.0.0.0', 0],
    ['[::1]:65535', '::1', 65_535],
    ['[0:0:0:0:0:0:0:1]:1', '::1', 1],
    ['[::ffff:127.0.0.1]:1', '127.0.0.1', 1],
    ['LocalHost:80', 'localhost', 80],
    ['sluice-1.example:80', 'sluice-1.example', 80],
  ])('%s is accepted', (text, host, port) => {
    expect(parse(text)).toEqual({ host, port })
  })

  test.each([
    '',
    ':8080',
    '8080',
    '127.0.0.1',
    '127.0.0.1:',
    '127.0.0.1:08080',
    '127.0.0.1:65536',
    '127.0.0.1:-1',
    '127.0.0.1:8080 ',
    '::1:8080',
    '[127.0.0.1]:80',
    '[fe80::1%eth0]:80',
    '[::1]',
    '127.1:80',
    '0x7f.1:80',
    '2130706433:80',
    '010.0.0.1:80',
    '-a.example:80',
    'a..b:80',
    'http://127.0.0.1:80',
    'a_b:80',
    '*:80',
  ])('%j is refused', (text) => {
    expect(parse(text)).toBeUndefined()
  })
})

test.each([
  ['127.0.0.1', true],
  ['127.255.255.254', true],
  ['::1', true],
  ['localhost', true],
  ['128.0.0.1', false],
  ['0.0.0.0', false],
  ['::', false],
  ['::2', false],
  ['10.0.0.1', false],
  ['localhost.example', false],
])('%s is reachable only from this machine: %s', (host, expected) => {
  expect(isLoopback(host)).toBe(expected)
})

test.each([
  ['127.0.0.1:80', '127.0.0.1:80', true],
  ['127.0.0.1:80', '127.0.0.1:81', false],
  ['127.0.0.1:0', '127.0.0.1:0', false],
  ['127.0.0.1:80', '127.0.0.2:80', false],
  ['0.0.0.0:80', '127.0.0.1:80', true],
  ['0.0.0.0:80', '[::1]:80', false],
  ['[::]:80', '127.0.0.1:80', true],
  ['[::]:80', '0.0.0.0:80', true],
  ['localhost:80', '[::1]:80', true],
  ['localhost:80', '127.0.0.1:80', true],
  ['localhost:80', '127.0.0.2:80', false],
])('%s and %s conflict: %s', (one, other, expected) => {
  expect(clash(one, other)).toBe(expected)
  expect(clash(other, one)).toBe(expected)
})
