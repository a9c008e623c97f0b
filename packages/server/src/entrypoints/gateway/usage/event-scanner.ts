/**
 * Splits a stream of server-sent events that arrives in pieces, and scans the data of each event as
 * JSON. Lines are never kept, so that their length does not matter.
 */
import type { JsonScanner } from './json-scanner.js'

const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
/** The beginning of the only lines that matter here. */
const DATA = Buffer.from('data:')
const NEWLINE = Buffer.from('\n')
/** A stream may begin with this mark, which is no part of its first line. */
const BYTE_ORDER_MARK = Buffer.from('\ufeff')

export class EventScanner {
  readonly #scanner: JsonScanner
  readonly #onEvent: (isComplete: boolean) => void
  /** The bytes of the line that were compared with `DATA`; -1: it is another line. */
  #matched = 0
  /** Whether the line has bytes. */
  #hasBytes = false
  /** Whether the byte after `data:` is still to come, of which one space is dropped. */
  #isFirst = false
  #isAfterCr = false
  /** The bytes of the mark that the stream began with; -1: its first line has begun. */
  #markBytes = 0

  /** `onEvent` is called at the end of each event, with whether its data is a whole JSON text. */
  constructor(scanner: JsonScanner, onEvent: (isComplete: boolean) => void) {
    this.#scanner = scanner
    this.#onEvent = onEvent
  }

  push(bytes: Uint8Array): void {
    let at = this.#markBytes < 0 ? 0 : this.skipMark(bytes)
    while (at < bytes.length) {
      const byte = bytes[at] ?? 0
      const isSecond = byte === LF && this.#isAfterCr
      this.#isAfterCr = byte === CR
      if (isSecond) at++
      else if (byte === LF || byte === CR) {
        this.endLine()
        at++
      } else at = this.readLine(bytes, at)
    }
  }

  /** The stream has ended; its last event may lack the empty line. */
  end(): void {
    this.endEvent()
  }

  /** Returns where the first line begins, or the end of the bytes. */
  private skipMark(bytes: Uint8Array): number {
    let at = 0
    while (at < bytes.length && this.#markBytes >= 0) {
      if (bytes[at] !== BYTE_ORDER_MARK[this.#markBytes]) this.#markBytes = -1
      else {
        at++
        this.#markBytes = this.#markBytes + 1 < BYTE_ORDER_MARK.length ? this.#markBytes + 1 : -1
      }
    }
    return at
  }

  /** Reads up to the end of the line. */
  private readLine(bytes: Uint8Array, begin: number): number {
    let at = begin
    this.#hasBytes = true
    while (this.#matched >= 0 && this.#matched < DATA.length && at < bytes.length) {
      const byte = bytes[at] ?? 0
      if (byte === LF || byte === CR) return at
      if (byte === DATA[this.#matched]) this.#matched++
      else this.#matched = -1
      this.#isFirst = true
      at++
    }
    if (this.#matched === DATA.length && this.#isFirst && at < bytes.length) {
      this.#isFirst = false
      if (bytes[at] === SPACE) at++
    }
    const end = lineEnd(bytes, at)
    if (this.#matched === DATA.length) this.#scanner.push(bytes, at, end)
    return end
  }

  private endLine(): void {
    if (!this.#hasBytes) this.endEvent()
    // Lines of one event are joined by a newline, which is a space to JSON.
    else if (this.#matched === DATA.length) this.#scanner.push(NEWLINE)
    this.#matched = 0
    this.#hasBytes = false
  }

  private endEvent(): void {
    this.#onEvent(this.#scanner.isComplete)
    this.#scanner.reset()
  }
}

function lineEnd(bytes: Uint8Array, begin: number): number {
  let at = begin
  while (at < bytes.length && bytes[at] !== LF && bytes[at] !== CR) at++
  return at
}

/** The most bytes at the end of a piece that the end of an event depends on. */
const TAIL_BYTES = 3

/**
 * Finds the end of an event in a stream that arrives in pieces, so that the stream can be ended
 * there.
 */
export class EventBoundary {
  /** The last bytes before the next piece. A stream may begin with an event. */
  #tail = Buffer.from('\n\n')

  /** Remembers a piece that is passed on whole. */
  pass(bytes: Uint8Array): void {
    if (bytes.length >= TAIL_BYTES) this.#tail = Buffer.from(bytes.subarray(-TAIL_BYTES))
    else this.#tail = Buffer.concat([this.#tail, bytes]).subarray(-TAIL_BYTES)
  }

  /** How many bytes of the next piece belong to an event that has begun; -1: all of them. */
  find(bytes: Uint8Array): number {
    const joined = Buffer.concat([this.#tail, bytes])
    const begin = this.#tail.length
    for (let at = begin; at <= joined.length; at++) {
      if (isEventEnd(joined, at)) return at - begin
    }
    return -1
  }
}

/** Whether an empty line ends before `at`. After `\r\n\r` the rest of the line end may follow. */
function isEventEnd(bytes: Uint8Array, at: number): boolean {
  const last = bytes[at - 1]
  const before = bytes[at - 2]
  if (last === CR) return before === CR
  if (last !== LF) return false
  return before === LF || (before === CR && (bytes[at - 3] === LF || bytes[at - 3] === CR))
}
