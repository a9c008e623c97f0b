import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { propertyRuns } from '../../../../../../tools/property-runs.js'
import { SAMPLES, type SampleAnswer } from './answers.test-helper.js'
import { UsageReader } from './usage-reader.js'

const RUNS = propertyRuns(1000)
const sample = fc.constantFrom(...SAMPLES)
/** Where the bytes are cut, as shares of their length. */
const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 40 })

function split(bytes: Buffer, shares: readonly number[]): Buffer[] {
  const places = shares.map((share) => Math.floor(share * bytes.length)).toSorted((a, b) => a - b)
  return [0, ...places].map((from, index) => bytes.subarray(from, places[index] ?? bytes.length))
}

function read({ dialect, form }: SampleAnswer, pieces: readonly Uint8Array[]) {
  const reader = new UsageReader(dialect, form)
  for (const piece of pieces) reader.push(piece)
  reader.end()
  return { reported: reader.reported, seen: reader.seenUsage(7), output: reader.outputSeen }
}

describe('for all answers', () => {
  test('every split of the bytes gives the same usage', () => {
    fc.assert(
      fc.property(sample, cuts, (answer, shares) => {
        const bytes = Buffer.from(answer.text)
        expect(read(answer, split(bytes, shares))).toEqual(read(answer, [bytes]))
      }),
      { numRuns: RUNS },
    )
  })

  test('bytes that arrive one by one give the same usage', () => {
    for (const answer of SAMPLES) {
      const bytes = Buffer.from(answer.text)
      const single = Array.from(bytes, (byte) => Uint8Array.of(byte))
      expect(read(answer, single)).toEqual(read(answer, [bytes]))
    }
  })

  test('an answer that breaks off has seen no more than a whole one', () => {
    fc.assert(
      fc.property(sample, fc.double({ min: 0, max: 1, noNaN: true }), (answer, share) => {
        const bytes = Buffer.from(answer.text)
        const cut = read(answer, [bytes.subarray(0, Math.floor(share * bytes.length))])
        expect(cut.output).toBeLessThanOrEqual(read(answer, [bytes]).output)
      }),
      { numRuns: RUNS },
    )
  })

  test('changed, removed and repeated bytes never make it throw', () => {
    const change = fc.tuple(fc.nat(), fc.uint8Array({ maxLength: 8 }), fc.nat({ max: 20 }))
    fc.assert(
      fc.property(sample, fc.array(change, { maxLength: 6 }), cuts, (answer, changes, shares) => {
        let bytes = Buffer.from(answer.text)
        for (const [place, added, removed] of changes) {
          const at = place % (bytes.length + 1)
          bytes = Buffer.concat([bytes.subarray(0, at), added, bytes.subarray(at + removed)])
        }
        expect(read(answer, split(bytes, shares))).toEqual(read(answer, [bytes]))
      }),
      { numRuns: RUNS },
    )
  })
})

describe('hostile answers', () => {
  const PIECE_BYTES = 1 << 20
  const PIECES = 64
  /** Far below what any of these answers has, and above what a test itself leaves behind. */
  const GROWTH_BYTES_MAX = 16 << 20
  const fill = (text: string) => Buffer.from(text.repeat(PIECE_BYTES / text.length))

  test.each([
    ['one line without end', 'data: ', 'a'],
    ['one string without end', 'data: {"usage":"', 'a'],
    ['one key without end', 'data: {"', 'k'],
    ['one number without end', 'data: {"usage":{"prompt_tokens":', '1'],
    ['lists in lists without end', 'data: ', '['],
    ['objects in objects without end', 'data: ', '{"a":'],
    ['objects on a wanted path without end', 'data: ', '{"usage":'],
    ['empty lines', '', '\n'],
    ['events without data', '', 'a: b\n\n'],
  ])('%s take no memory', (_name, begin, text) => {
    const piece = fill(text)
    for (const form of ['events', 'json'] as const) {
      const reader = new UsageReader('openai', form)
      reader.push(Buffer.from(form === 'events' ? begin : begin.replace('data: ', '')))
      const before = process.memoryUsage().heapUsed
      for (let i = 0; i < PIECES; i++) reader.push(piece)
      reader.end()
      expect(process.memoryUsage().heapUsed - before).toBeLessThan(GROWTH_BYTES_MAX)
      expect(reader.reported).toBeUndefined()
    }
  })
})
