import { ConnectionError } from '../errors.js'
import { ErrorCode } from '../frames.js'
import { type FieldNames, hasValue, isValueAllowed, Role } from './field-names.js'
import { decodeHuffman, huffmanBytesMax } from './huffman.js'
import { STATIC_TABLE } from './static-table.js'

export interface FieldSink {
  /**
   * One field. `value` is empty where nothing reads it; `bytes` is what the field counts in a list
   * of headers.
   */
  onField(role: number, value: string, bytes: number): void
}

interface TableEntry {
  readonly nameRole: number
  readonly nameBytes: number
  /** As `nameRole`, unless the value makes the field malformed. */
  readonly role: number
  readonly value: string
  readonly bytes: number
}

export type StaticEntries = readonly (TableEntry | undefined)[]

/** What a field counts beyond its name and value, by RFC 7541. */
const FIELD_OVERHEAD_BYTES = 32

/** The size of the dynamic table. It is the default of HTTP/2, so no setting states it. */
export const TABLE_BYTES_MAX = 4_096

/** A power of two: a full table of fields without name and value. */
const TABLE_ENTRIES_MAX = TABLE_BYTES_MAX / FIELD_OVERHEAD_BYTES
const RING_MASK = TABLE_ENTRIES_MAX - 1

/** The largest number that a block may state. Every length and index is far below it. */
const INTEGER_MAX = 2 ** 24

/** The longest block that is decoded at once; the connection refuses longer ones. */
export const BLOCK_BYTES_MAX = 32_768

/** Shared by all decoders, as decoding never waits. */
const scratch = Buffer.allocUnsafeSlow(huffmanBytesMax(BLOCK_BYTES_MAX))

/**
 * Decodes blocks of headers by RFC 7541, with the dynamic table of one connection. An error ends
 * the connection, because the table is lost with it.
 */
export class HpackDecoder {
  readonly #names: FieldNames
  readonly #static: StaticEntries
  /** A ring: the newest entry is before `#next`. */
  readonly #ring: (TableEntry | undefined)[] = Array.from({ length: TABLE_ENTRIES_MAX })
  #next = 0
  #count = 0
  #tableBytes = 0
  #tableBytesMax = TABLE_BYTES_MAX

  #bytes: Buffer = scratch
  #at = 0
  #end = 0
  /** Where the last string is, after `readString`. */
  #text: Buffer = scratch
  #textStart = 0
  #textEnd = 0

  constructor(names: FieldNames, statics: StaticEntries) {
    this.#names = names
    this.#static = statics
  }

  get tableBytes(): number {
    return this.#tableBytes
  }

  decode(bytes: Buffer, start: number, end: number, sink: FieldSink): void {
    this.#bytes = bytes
    this.#at = start
    this.#end = end
    let isStart = true
    while (this.#at < end) {
      const first = bytes[this.#at] ?? 0
      if (first >= 0x80) {
        const entry = this.entry(this.readInteger(0x7f))
        sink.onField(entry.role, entry.value, entry.bytes)
      } else if (first >= 0x40) {
        const entry = this.readLiteral(0x3f)
        sink.onField(entry.role, entry.value, entry.bytes)
        this.insert(entry)
      } else if (first >= 0x20) {
        if (!isStart) fail('a change of the table size after a field')
        this.resize(this.readInteger(0x1f))
        continue
      } else {
        const entry = this.readLiteral(0x0f)
        sink.onField(entry.role, entry.value, entry.bytes)
      }
      isStart = false
    }
    // The chunk must not live as long as the connection.
    this.#bytes = scratch
    this.#text = scratch
  }

  private entry(index: number): TableEntry {
    if (index < this.#static.length) {
      const entry = this.#static[index]
      if (entry !== undefined) return entry
    }
    const age = index - this.#static.length
    const entry =
      age >= 0 && age < this.#count ? this.#ring[(this.#next - 1 - age) & RING_MASK] : undefined
    return entry ?? fail('an index outside the tables')
  }

  private readLiteral(mask: number): TableEntry {
    const index = this.readInteger(mask)
    let nameRole: number
    let nameBytes: number
    if (index === 0) {
      this.readString()
      nameBytes = this.#textEnd - this.#textStart
      nameRole = this.#names.roleOf(this.#text, this.#textStart, this.#textEnd)
    } else {
      ;({ nameRole, nameBytes } = this.entry(index))
    }
    this.readString()
    const [text, start, end] = [this.#text, this.#textStart, this.#textEnd]
    const isAllowed = isValueAllowed(text, start, end)
    return {
      nameRole,
      nameBytes,
      role: isAllowed ? nameRole : Role.malformed,
      value: hasValue(nameRole) ? text.toString('latin1', start, end) : '',
      bytes: nameBytes + end - start + FIELD_OVERHEAD_BYTES,
    }
  }

  /** Finds the next string where it is, or decodes it into the scratch buffer. */
  private readString(): void {
    if (this.#at >= this.#end) fail('a string is missing')
    const isHuffman = (this.#bytes[this.#at] ?? 0) >= 0x80
    const length = this.readInteger(0x7f)
    const start = this.#at
    if (length > this.#end - start) fail('a string exceeds its block')
    this.#at = start + length
    if (!isHuffman) {
      this.#text = this.#bytes
      this.#textStart = start
      this.#textEnd = this.#at
      return
    }
    const decoded = decodeHuffman(this.#bytes, start, this.#at, scratch)
    if (decoded < 0) fail('a string is not Huffman code')
    this.#text = scratch
    this.#textStart = 0
    this.#textEnd = decoded
  }

  /** A number whose first bits are those of the mask. */
  private readInteger(mask: number): number {
    let value = (this.#bytes[this.#at++] ?? 0) & mask
    if (value < mask) return value
    for (let factor = 1; this.#at < this.#end && value <= INTEGER_MAX; factor *= 128) {
      const byte = this.#bytes[this.#at++] ?? 0
      // A factor beyond the largest number: zeros that only make the number longer.
      if (factor > INTEGER_MAX) break
      value += (byte & 0x7f) * factor
      if (byte < 0x80 && value <= INTEGER_MAX) return value
    }
    return fail('a number is too large, or not complete')
  }

  private insert(entry: TableEntry): void {
    this.evict(this.#tableBytesMax - entry.bytes)
    if (entry.bytes > this.#tableBytesMax) return
    this.#ring[this.#next] = entry
    this.#next = (this.#next + 1) & RING_MASK
    this.#count += 1
    this.#tableBytes += entry.bytes
  }

  private resize(bytes: number): void {
    if (bytes > TABLE_BYTES_MAX) fail('a table larger than the setting')
    this.#tableBytesMax = bytes
    this.evict(bytes)
  }

  /** Removes the oldest entries until no more than so many bytes are left. */
  private evict(bytes: number): void {
    while (this.#tableBytes > bytes && this.#count > 0) {
      const oldest = (this.#next - this.#count) & RING_MASK
      this.#tableBytes -= this.#ring[oldest]?.bytes ?? 0
      this.#ring[oldest] = undefined
      this.#count -= 1
    }
  }
}

/** The static table with the roles of these names. No field has the index 0. */
export function staticEntries(names: FieldNames): StaticEntries {
  const entries = STATIC_TABLE.map(([name, value]): TableEntry => {
    const nameRole = names.roleOf(Buffer.from(name, 'latin1'), 0, name.length)
    const bytes = name.length + value.length + FIELD_OVERHEAD_BYTES
    return { nameRole, nameBytes: name.length, role: nameRole, value, bytes }
  })
  return [undefined, ...entries]
}

function fail(reason: string): never {
  throw new ConnectionError(ErrorCode.compressionError, `header compression: ${reason}`)
}
