/**
 * How many different hashes were seen, to about 2.3 %, in 2 KB however many they are: HyperLogLog
 * (Flajolet and others, 2007) with the estimator of Ertl (2017), which needs no tables of errors.
 *
 * A hash chooses a register by some of its bits and has a rank by others: 1 for half of all hashes,
 * 2 for a quarter, and so on. A register keeps the highest rank it met; so many hashes must have
 * come by as make such ranks likely. Hashes are of 64 bits and keyed, so nobody outside can choose
 * them, and their bits are as good as drawn.
 */

const REGISTER_BITS = 11
export const REGISTERS = 1 << REGISTER_BITS
/** A half without any bit; until then about 2^42 callers have come, more than ever will. */
const RANK_MAX = 33

/** One byte each, all 0 at first. */
export type Registers = Uint8Array

export function makeRegisters(): Registers {
  return new Uint8Array(REGISTERS)
}

/** The register of a hash, by its low half. */
export function registerOf(lo: number): number {
  return lo >>> (32 - REGISTER_BITS)
}

/** The rank of a hash, by the zeros at the end of its high half. */
export function rankOf(hi: number): number {
  return hi === 0 ? RANK_MAX : 32 - Math.clz32(hi & -hi)
}

/** Afterwards the first are those of all hashes that either has seen. */
export function mergeRegisters(into: Registers, from: Registers): void {
  for (let i = 0; i < REGISTERS; i++) {
    const rank = from[i] ?? 0
    if (rank > (into[i] ?? 0)) into[i] = rank
  }
}

const ALPHA = 1 / (2 * Math.LN2)

export function estimateOf(registers: Registers): number {
  const counts = new Uint16Array(RANK_MAX + 1)
  for (let i = 0; i < REGISTERS; i++) {
    const rank = registers[i] ?? 0
    counts[rank] = (counts[rank] ?? 0) + 1
  }
  let sum = 0
  for (let rank = RANK_MAX; rank >= 1; rank--) sum = (sum + (counts[rank] ?? 0)) / 2
  const empty = counts[0] ?? 0
  if (empty === REGISTERS) return 0
  return (ALPHA * REGISTERS * REGISTERS) / (sum + REGISTERS * sigma(empty / REGISTERS))
}

/** `x + x^2 + 2 x^4 + 4 x^8 + ...`: what empty registers stand for, where `x` is their share. */
function sigma(share: number): number {
  let power = share
  let weight = 1
  let sum = share
  for (let before = -1; sum !== before; weight *= 2) {
    before = sum
    power *= power
    sum += power * weight
  }
  return sum
}

/** A register is one character, from this one on: compressed, that is less than packed bits. */
const FIRST_CODE = '0'.charCodeAt(0)

export function writeRegisters(registers: Registers): string {
  const codes = Buffer.allocUnsafe(REGISTERS)
  for (let i = 0; i < REGISTERS; i++) codes[i] = FIRST_CODE + (registers[i] ?? 0)
  return codes.toString('latin1')
}

/** Undefined: not written by `writeRegisters`. */
export function readRegisters(text: string): Registers | undefined {
  if (text.length !== REGISTERS) return undefined
  const registers = makeRegisters()
  for (let i = 0; i < REGISTERS; i++) {
    const rank = text.charCodeAt(i) - FIRST_CODE
    if (rank < 0 || rank > RANK_MAX) return undefined
    registers[i] = rank
  }
  return registers
}
