/**
 * Finds values in a JSON text that arrives in pieces, and measures its strings. The text is never
 * kept: an answer may have megabytes, and its usage stands at the end. A text that is not valid
 * JSON makes values absent or wrong, but never throws.
 */

/** What to do with the value at a path. */
export interface WantedValue {
  /**
   * `number`, `text`, `flag`: report the value. `length`: report the length of a string while it
   * arrives, and its end. `object`: report the end of an object.
   */
  readonly kind: 'number' | 'text' | 'flag' | 'length' | 'object'
  /** The name that the receiver gets. */
  readonly name: string
}

/** The wanted values of a text, by their path: `choices.*.delta.content`, `*` for list items. */
export type WantedValues = Readonly<Record<string, WantedValue>>

export interface JsonReceiver {
  /** A text longer than `KEPT_BYTES_MAX` is empty. */
  onValue(name: string, value: number | string | boolean): void
  /** A further piece of a string of kind `length`, measured like `textLength`. */
  onLength(name: string, length: number): void
  /** The end of a value of kind `length` or `object`. */
  onEnd(name: string): void
}

/** A step of all wanted paths: the values below an object or a list. */
export interface PathNode {
  readonly wanted: WantedValue | undefined
  readonly fields: ReadonlyMap<string, PathNode>
  readonly items: PathNode | undefined
}

interface MutablePathNode extends PathNode {
  wanted: WantedValue | undefined
  readonly fields: Map<string, MutablePathNode>
  items: MutablePathNode | undefined
}

/** Combines the wanted paths into one tree. */
export function compilePaths(values: WantedValues): PathNode {
  const root = emptyNode()
  for (const [path, wanted] of Object.entries(values)) {
    let node = root
    for (const step of path.split('.')) node = childOf(node, step)
    node.wanted = wanted
  }
  return root
}

function emptyNode(): MutablePathNode {
  return { wanted: undefined, fields: new Map(), items: undefined }
}

function childOf(node: MutablePathNode, step: string): MutablePathNode {
  if (step === '*') return (node.items ??= emptyNode())
  const known = node.fields.get(step)
  if (known !== undefined) return known
  const made = emptyNode()
  node.fields.set(step, made)
  return made
}

/**
 * The bytes of a key, number or text that are kept while they arrive. No wanted key or number has
 * as many, and no model has so long a name.
 */
const KEPT_BYTES_MAX = 256
/** Bytes that a number counts as: a list of numbers is a list of tokens. */
const NUMBER_LENGTH = 4
/** Bytes that `\u4f60` counts as: most characters that are written so have three in UTF-8. */
const ESCAPED_LENGTH = 3

const BETWEEN = 0
const STRING = 1
const NUMBER = 2
const WORD = 3
const COMPLETE = 4

/** After a backslash; below it the hexadecimal digits that are still to come. */
const BACKSLASH = 5

/** An open object or list that a wanted path leads through. */
interface Container {
  readonly node: PathNode
  readonly isObject: boolean
}

export class JsonScanner {
  readonly #root: PathNode
  readonly #receiver: JsonReceiver
  readonly #kept = Buffer.allocUnsafe(KEPT_BYTES_MAX)
  /** How many bytes were to be kept; those above the bound were not. */
  #keptLength = 0
  #state = BETWEEN
  /** At most as deep as the longest path. */
  #open: Container[] = []
  /** How many containers are open below those, through which no path leads. */
  #skipped = 0
  /** Where the next value stands; undefined: on no path. */
  #next: PathNode | undefined
  #expectsKey = false
  #isKey = false
  #escape = 0
  #textLength = 0

  constructor(root: PathNode, receiver: JsonReceiver) {
    this.#root = root
    this.#receiver = receiver
    this.#next = root
  }

  /** Whether the text has ended: what follows is ignored. */
  get isComplete(): boolean {
    return this.#state === COMPLETE
  }

  /**
   * The length of all strings so far, keys included, in bytes of UTF-8: tokenizers count bytes, so
   * a Chinese character is not less than an English one. Numbers count four bytes each.
   */
  get textLength(): number {
    return this.#textLength
  }

  /** Forgets everything, and expects another text. */
  reset(): void {
    this.#state = BETWEEN
    this.#open = []
    this.#skipped = 0
    this.#next = this.#root
    this.#expectsKey = false
    this.#escape = 0
    this.#textLength = 0
  }

  push(bytes: Uint8Array, begin = 0, end = bytes.length): void {
    let at = begin
    while (at < end) {
      if (this.#state === STRING) at = this.readString(bytes, at, end)
      else if (this.#state === BETWEEN) at = this.readBetween(bytes, at, end)
      else if (this.#state === COMPLETE) return
      else at = this.readWord(bytes, at, end)
    }
  }

  /** Reads up to the beginning of a string, number or word; ignores what stands nowhere in JSON. */
  private readBetween(bytes: Uint8Array, begin: number, end: number): number {
    for (let at = begin; at < end; at++) {
      const byte = bytes[at] ?? 0
      if (byte <= 0x20) continue
      if (byte === 0x22) {
        this.beginString()
        return at + 1
      }
      if (byte === 0x7b || byte === 0x5b) this.open(byte === 0x7b)
      else if (byte === 0x7d || byte === 0x5d) this.close()
      else if (byte === 0x2c) this.nextItem()
      else if (isOfWord(byte)) {
        this.#state = byte === 0x2d || (byte >= 0x30 && byte <= 0x39) ? NUMBER : WORD
        this.#keptLength = 0
        return at
      }
      if (this.#state === COMPLETE) return end
    }
    return end
  }

  private open(isObject: boolean): void {
    const node = this.#next
    const leadsOn = isObject
      ? node !== undefined && (node.fields.size > 0 || node.wanted?.kind === 'object')
      : node?.items !== undefined
    if (this.#skipped > 0 || node === undefined || !leadsOn) {
      this.#skipped++
      return
    }
    this.#open.push({ node, isObject })
    this.#expectsKey = isObject
    this.#next = isObject ? undefined : node.items
  }

  private close(): void {
    if (this.#skipped > 0) this.#skipped--
    else {
      const { node, isObject } = this.#open.pop() ?? NO_CONTAINER
      if (isObject && node.wanted?.kind === 'object') this.#receiver.onEnd(node.wanted.name)
    }
    this.endValue()
  }

  private nextItem(): void {
    if (this.#skipped > 0) return
    const { node, isObject } = this.#open.at(-1) ?? NO_CONTAINER
    this.#expectsKey = isObject
    this.#next = isObject ? undefined : node.items
  }

  private endValue(): void {
    this.#next = undefined
    this.#expectsKey = false
    this.#state = this.#open.length === 0 && this.#skipped === 0 ? COMPLETE : BETWEEN
  }

  private beginString(): void {
    this.#state = STRING
    this.#isKey = this.#expectsKey && this.#skipped === 0
    this.#keptLength = 0
  }

  /** Reads up to the end of a string. */
  private readString(bytes: Uint8Array, begin: number, end: number): number {
    const wanted = this.wantedHere()
    const isKept = this.#isKey || wanted?.kind === 'text'
    let escape = this.#escape
    let length = 0
    let at = begin
    let isEnded = false
    for (; at < end && !isEnded; at++) {
      const byte = bytes[at] ?? 0
      if (escape === 0) {
        isEnded = byte === 0x22
        if (isEnded) break
        if (byte === 0x5c) escape = BACKSLASH
        else length++
      } else if (escape < BACKSLASH) escape--
      else if (byte === 0x75) {
        escape = BACKSLASH - 1
        length += ESCAPED_LENGTH
      } else {
        escape = 0
        length++
      }
      if (isKept) this.keep(byte)
    }
    this.#escape = escape
    this.#textLength += length
    if (wanted?.kind === 'length' && length > 0) this.#receiver.onLength(wanted.name, length)
    if (!isEnded) return end
    this.endString(wanted)
    return at + 1
  }

  private endString(wanted: WantedValue | undefined): void {
    this.#state = BETWEEN
    if (this.#isKey) {
      this.#isKey = false
      this.#expectsKey = false
      this.#next = this.#open.at(-1)?.node.fields.get(this.keptText())
      return
    }
    if (wanted?.kind === 'text') this.#receiver.onValue(wanted.name, this.keptText())
    else if (wanted?.kind === 'length') this.#receiver.onEnd(wanted.name)
    this.endValue()
  }

  /** Reads up to the end of a number, or of `true`, `false` or `null`. */
  private readWord(bytes: Uint8Array, begin: number, end: number): number {
    let at = begin
    while (at < end && isOfWord(bytes[at] ?? 0)) this.keep(bytes[at++] ?? 0)
    if (at === end) return end
    const isNumber = this.#state === NUMBER
    if (isNumber) this.#textLength += NUMBER_LENGTH
    this.reportWord(isNumber)
    this.endValue()
    return at
  }

  private reportWord(isNumber: boolean): void {
    const wanted = this.wantedHere()
    if (wanted === undefined || this.#keptLength > KEPT_BYTES_MAX) return
    const text = this.#kept.toString('latin1', 0, this.#keptLength)
    if (wanted.kind === 'number' && isNumber) {
      const value = Number(text)
      if (Number.isFinite(value)) this.#receiver.onValue(wanted.name, value)
    } else if (wanted.kind === 'flag' && (text === 'true' || text === 'false')) {
      this.#receiver.onValue(wanted.name, text === 'true')
    }
  }

  private wantedHere(): WantedValue | undefined {
    return this.#skipped > 0 || this.#isKey ? undefined : this.#next?.wanted
  }

  private keep(byte: number): void {
    if (this.#keptLength < KEPT_BYTES_MAX) this.#kept[this.#keptLength] = byte
    this.#keptLength++
  }

  /** The kept string without its escapes; empty if those are invalid, or it is too long. */
  private keptText(): string {
    if (this.#keptLength > KEPT_BYTES_MAX) return ''
    const text = this.#kept.toString('utf8', 0, this.#keptLength)
    if (!text.includes('\\')) return text
    try {
      return String(JSON.parse(`"${text}"`))
    } catch {
      return ''
    }
  }
}

const NO_CONTAINER: Container = { node: emptyNode(), isObject: false }

/** Letters, digits and `+ - .`: what numbers and words are made of. */
function isOfWord(byte: number): boolean {
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    (byte >= 0x41 && byte <= 0x5a) ||
    byte === 0x2b ||
    byte === 0x2d ||
    byte === 0x2e
  )
}
