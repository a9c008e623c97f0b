import { expect, test } from 'vitest'
import { TextSealer } from './sealed-text.js'

const SECRET = Buffer.alloc(16, 7)
const TEXT = 'ünïcode, a name and another'

test('a sealed text opens in every process with the same secret and context', () => {
  const sealed = new TextSealer(SECRET).seal(TEXT, 'rows')
  expect(new TextSealer(SECRET).open(sealed, 'rows')).toBe(TEXT)
  expect(new TextSealer(SECRET).open(sealed, 'other rows')).toBeUndefined()
  expect(new TextSealer(Buffer.alloc(16, 8)).open(sealed, 'rows')).toBeUndefined()
})

test('the same text is sealed differently each time, and never contains the plain text', () => {
  const sealer = new TextSealer(SECRET)
  const [one, two] = [sealer.seal(TEXT, ''), sealer.seal(TEXT, '')]
  expect(one).not.toBe(two)
  expect(Buffer.from(one, 'base64').toString('latin1')).not.toContain('another')
})

test('a changed or truncated text does not open and does not throw', () => {
  const sealer = new TextSealer(SECRET)
  const bytes = Buffer.from(sealer.seal(TEXT, 'rows'), 'base64')
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes)
    changed.writeUInt8(changed.readUInt8(at) ^ 1, at)
    expect(sealer.open(changed.toString('base64'), 'rows'), `byte ${at}`).toBeUndefined()
    const cut = bytes.subarray(0, at).toString('base64')
    expect(sealer.open(cut, 'rows'), `cut at ${at}`).toBeUndefined()
  }
  expect(sealer.open('no base64 ß', 'rows')).toBeUndefined()
})
