import { describe, expect, test } from 'vitest'
import { encodeStatusMessage } from './status.js'
import { parseTimeoutMs } from './timeout.js'

describe('grpc-timeout', () => {
  test.each([
    ['1H', 3_600_000],
    ['2M', 120_000],
    ['3S', 3_000],
    ['20m', 20],
    ['500u', 0.5],
    ['1000000n', 1],
    ['0m', 0],
    ['99999999S', 99_999_999_000],
  ])('%s is %d milliseconds', (text, ms) => {
    expect(parseTimeoutMs(text)).toBeCloseTo(ms, 9)
  })

  test.each(['', 'm', '20', '20x', '-1m', '1.5S', ' 1S', '1 S', '123456789m', '1ms', '0x1m'])(
    '"%s" is malformed',
    (text) => {
      expect(parseTimeoutMs(text)).toBeUndefined()
    },
  )
})

describe('grpc-message', () => {
  test('is percent-encoded, except printable ASCII', () => {
    expect(encodeStatusMessage('over 100% of "quota"')).toBe('over 100%25 of "quota"')
    expect(encodeStatusMessage('füll\r\n\t\0')).toBe('f%C3%BCll%0D%0A%09%00')
    expect(encodeStatusMessage('🙂')).toBe('%F0%9F%99%82')
  })

  test('has no space at its ends, where HTTP/2 allows none', () => {
    expect(encodeStatusMessage(' a  b ')).toBe('%20a  b%20')
    expect(encodeStatusMessage(' ')).toBe('%20')
    expect(encodeStatusMessage(`${'a'.repeat(511)} b`)).toBe(`${'a'.repeat(511)}%20`)
  })

  test('is not cut within a character', () => {
    expect(encodeStatusMessage(`${'a'.repeat(511)}🙂`)).toBe('a'.repeat(511))
  })

  test('is cut, so that the headers of an answer stay small', () => {
    expect(encodeStatusMessage('a'.repeat(100_000))).toHaveLength(512)
    expect(encodeStatusMessage('ü'.repeat(100_000)).length).toBeLessThan(4_096)
  })
})
