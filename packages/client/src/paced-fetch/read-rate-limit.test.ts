import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { propertyRuns } from '../../../../tools/property-runs.js'
import { type RateLimitReading, readRateLimit } from './read-rate-limit.js'

interface HeaderCase {
  readonly comment: string
  readonly nowMs: number
  readonly headers: Readonly<Record<string, string>>
  readonly expect: RateLimitReading
}

const file = new URL('../../../../conformance/client/headers.json', import.meta.url)
const { cases } = JSON.parse(readFileSync(file, 'utf8')) as {
  readonly cases: readonly HeaderCase[]
}

describe('readRateLimit', () => {
  test.each(cases)('reads the headers of the case "$comment"', (one) => {
    const reading = readRateLimit(new Headers(one.headers), one.nowMs)
    expect(JSON.parse(JSON.stringify(reading))).toEqual(one.expect)
  })

  test('throws on no bytes, and returns numbers that are finite and not negative', () => {
    const names = [...new Set(cases.flatMap(({ headers }) => Object.keys(headers)))].map((name) =>
      name.toLowerCase(),
    )
    const piece = fc.constantFrom('"a"', ';r=', ';t=', '1', ',', '9e9', '6m', 's', '=', ':', '\\')
    const pieces = fc.array(piece, { maxLength: 20 }).map((all) => all.join(''))
    const value = fc.oneof(fc.string({ unit: 'binary', maxLength: 40 }), pieces)
    const headers = fc.dictionary(fc.constantFrom(...names), value)
    fc.assert(
      fc.property(headers, (fields) => {
        const { policies, retryAfterMs } = readRateLimit(new Map(Object.entries(fields)), 1e12)
        const numbers = policies.flatMap(({ remaining, resetMs, limit, windowMs }) => {
          return [remaining, resetMs, limit, windowMs]
        })
        for (const number of [retryAfterMs, ...numbers]) {
          if (number === undefined) continue
          if (!Number.isFinite(number) || number < 0) throw new Error(`found ${number}`)
        }
      }),
      { numRuns: propertyRuns(500) },
    )
  })

  test('reads a field of a million bytes in bounded time, by its first part', () => {
    const field = '"a'.repeat(500_000)
    expect(readRateLimit(new Map([['ratelimit', field]]), 0).policies).toEqual([])
  })
})
