import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createEventReader } from './read-events.js'
import type { EventView } from './api-types.js'
import { propertyRuns } from '../../../tools/property-runs.js'

function readAll(pieces: readonly string[]) {
  const events: EventView[] = []
  const reader = createEventReader((event) => events.push(event))
  const isGood = pieces.every((piece) => reader.push(piece))
  return { events, isGood }
}

const text = (event: string, data: unknown) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`

const rules = (version: number) => ({ event: 'rules', data: { version } })

describe('readEvents', () => {
  test('yields each event whole, however the text was cut', () => {
    const versions = fc.array(fc.nat(), { maxLength: 5 })
    const cuts = fc.array(fc.nat({ max: 400 }), { maxLength: 40 })
    fc.assert(
      fc.property(versions, cuts, fc.constantFrom('\n', '\r\n'), (numbers, places, lineEnd) => {
        const written = numbers.map((version) => `id: 5\n${text('rules', { version })}: alive\n\n`)
        const whole = `retry: 2000\n\n${written.join('')}`.replaceAll('\n', lineEnd)
        const at = [0, ...places.toSorted((a, b) => a - b), whole.length]
        const pieces = at.map((place, i) => whole.slice(place, at[i + 1]))
        const { events, isGood } = readAll(pieces)
        expect(events).toEqual(numbers.map(rules))
        expect(isGood).toBe(true)
      }),
    )
  })

  test('ignores events with unknown names, or without JSON', () => {
    const odd = ['event: rules\ndata: {\n\n', 'data: {}\n\n', 'event: rules\n\n', '\n\n', ':\n\n']
    const { events } = readAll([...odd, text('later', {}), text('rules', { version: 3 })])
    expect(events).toEqual([rules(3)])
  })

  test('joins data of several lines, and reads a field without a colon as empty', () => {
    const { events } = readAll(['event:rules\ndata\ndata: {"version":\ndata:4}\n\n'])
    expect(events).toEqual([rules(4)])
  })

  test('throws nothing, whatever the text', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary' })), (pieces) => {
        expect(() => readAll(pieces)).not.toThrow()
      }),
      { numRuns: propertyRuns(100) },
    )
  })

  test('rejects an event that does not end', () => {
    expect(readAll(['event: tick\ndata: ', 'x'.repeat(5 * 1024 * 1024)]).isGood).toBe(false)
    const line = `data: ${'x'.repeat(1024 * 1024)}\n`
    expect(readAll([line, line, line, line, line]).isGood).toBe(false)
  })
})
