import { describe, expect, test } from 'vitest'
import { EventBoundary } from './event-scanner.js'

/** What is passed on if the stream is to end with the piece at `stop`. */
function passed(pieces: readonly string[], stop: number): string {
  const boundary = new EventBoundary()
  let text = ''
  for (const [index, piece] of pieces.entries()) {
    const bytes = Buffer.from(piece)
    const length = index < stop ? -1 : boundary.find(bytes)
    if (length >= 0) return text + bytes.subarray(0, length).toString()
    boundary.pass(bytes)
    text += piece
  }
  return `${text} without end`
}

describe('the boundary of events', () => {
  test('is the beginning of a piece that begins with an event', () => {
    expect(passed(['data: 1\n\n', 'data: 2\n\n'], 1)).toBe('data: 1\n\n')
    expect(passed(['data: 1\n\n'], 0)).toBe('')
  })

  test('is the end of the event that the piece continues', () => {
    expect(passed(['data: 1\n\nda', 'ta: 2\n\ndata: 3\n\n'], 1)).toBe('data: 1\n\ndata: 2\n\n')
    expect(passed(['data: 1\n', '\ndata: 2\n\n'], 1)).toBe('data: 1\n\n')
    expect(passed(['data: 1', '23', '4\n', '\n'], 1)).toBe('data: 1234\n\n')
  })

  test.each([['\n'], ['\r\n'], ['\r']])('is found with lines that end in %j', (newline) => {
    const text = ['data: 1', '', 'data: 2', '', ''].join(newline)
    const whole = ['data: 1', '', ''].join(newline)
    for (let at = 1; at < whole.length; at++) {
      expect(passed([text.slice(0, at), text.slice(at)], 1)).toBe(whole)
    }
  })

  test('is in no piece of an event that has not ended', () => {
    expect(passed(['data: 1\n', 'data: 2\n', 'x'], 1)).toBe('data: 1\ndata: 2\nx without end')
  })
})
