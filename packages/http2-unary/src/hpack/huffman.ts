/**
 * The Huffman code of RFC 7541, appendix B. It is canonical: its codes follow from the number of
 * bits of each symbol. Decoding goes four bits at a time; no code has fewer than five, so a step
 * completes one symbol at most.
 */

/** The number of bits of the code of each byte, and of the end of a string (256). */
// biome-ignore format: one row for each sixteen bytes
const CODE_BITS: readonly number[] = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
  28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
  6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
  5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
  7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
  15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
  6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
  20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
  24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
  22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
  21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
  26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
  19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
  20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
  26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
  30,
]

const END_OF_STRING = 256
const STEP_BITS = 4
const STEPS = 1 << STEP_BITS

/** The longest rest of a byte after the last symbol. A longer one is an error. */
const PADDING_BITS_MAX = 7

/** In an entry of the table: the next node in the low byte, a completed symbol above it. */
const SYMBOL_SHIFT = 8
const HAS_SYMBOL = 1 << 16
const IS_ERROR = 1 << 17

/** A node of the code's tree, with what follows a bit of 0 and of 1: a node, or ~symbol. */
type Node = [zero: number | undefined, one: number | undefined]

function buildTree(): readonly Node[] {
  const tree: Node[] = [[undefined, undefined]]
  const symbols = CODE_BITS.map((bits, symbol) => ({ bits, symbol }))
  // Within a length, codes go up with the symbol.
  symbols.sort((one, other) => one.bits - other.bits || one.symbol - other.symbol)
  let code = 0
  let previousBits = 0
  for (const { bits, symbol } of symbols) {
    code = (previousBits === 0 ? 0 : code + 1) * 2 ** (bits - previousBits)
    previousBits = bits
    let node = 0
    for (let bit = bits - 1; bit > 0; bit--) node = childOf(tree, node, (code >>> bit) & 1)
    setChild(tree, node, code & 1, ~symbol)
  }
  return tree
}

function childOf(tree: Node[], node: number, bit: number): number {
  const known = tree[node]?.[bit]
  if (known !== undefined) return known
  tree.push([undefined, undefined])
  setChild(tree, node, bit, tree.length - 1)
  return tree.length - 1
}

function setChild(tree: Node[], node: number, bit: number, child: number): void {
  const children = tree[node]
  if (children !== undefined) children[bit] = child
}

/** For each node and each four bits: where they lead, and which symbol they complete. */
function buildSteps(tree: readonly Node[]): Uint32Array {
  const steps = new Uint32Array(tree.length * STEPS)
  for (let start = 0; start < tree.length; start++) {
    for (let input = 0; input < STEPS; input++) {
      steps[start * STEPS + input] = stepFrom(tree, start, input)
    }
  }
  return steps
}

function stepFrom(tree: readonly Node[], start: number, input: number): number {
  let node = start
  let completed = 0
  for (let bit = STEP_BITS - 1; bit >= 0; bit--) {
    const child = tree[node]?.[(input >>> bit) & 1] ?? ~END_OF_STRING
    if (child >= 0) {
      node = child
    } else if (~child === END_OF_STRING) {
      return IS_ERROR
    } else {
      completed = HAS_SYMBOL | (~child << SYMBOL_SHIFT)
      node = 0
    }
  }
  return completed | node
}

/** The nodes at which a string may end: the first bits of the end of a string, which are ones. */
function buildEnds(tree: readonly Node[]): Uint8Array {
  const ends = new Uint8Array(tree.length)
  let node = 0
  for (let bits = 0; bits <= PADDING_BITS_MAX; bits++) {
    ends[node] = 1
    node = tree[node]?.[1] ?? 0
  }
  return ends
}

const TREE = buildTree()
const STEP = buildSteps(TREE)
const IS_END = buildEnds(TREE)

/** Decodes into `target` and returns the number of bytes, or -1 if that is no Huffman code. */
export function decodeHuffman(
  bytes: Uint8Array,
  start: number,
  end: number,
  target: Uint8Array,
): number {
  let node = 0
  let length = 0
  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? 0
    let step = STEP[(node << STEP_BITS) | (byte >>> STEP_BITS)] ?? IS_ERROR
    if ((step & HAS_SYMBOL) !== 0) target[length++] = step >>> SYMBOL_SHIFT
    const next = STEP[((step & 0xff) << STEP_BITS) | (byte & (STEPS - 1))] ?? IS_ERROR
    if (((step | next) & IS_ERROR) !== 0) return -1
    step = next
    if ((step & HAS_SYMBOL) !== 0) target[length++] = step >>> SYMBOL_SHIFT
    node = step & 0xff
  }
  return IS_END[node] === 1 ? length : -1
}

/** The bytes that Huffman code of so many bytes decodes to at most: the shortest has five bits. */
export function huffmanBytesMax(encodedBytes: number): number {
  return Math.floor((encodedBytes * 8) / 5)
}
