/**
 * The handle of a reservation: a signed text that names what was reserved, by which any node can
 * settle it. Nothing of a reservation is stored but its counters, and the mark that it was settled.
 */
import { SluiceError } from '../errors.js'
import { isCount } from '../numbers.js'
import type { Hash64, SipKey } from '../sip-hash.js'
import { type ChargedEntry, ENTRY_FIELDS, formatEntry, parseEntry } from './charged-entry.js'
import { readSigned, signingKey, signText } from './signed-text.js'

/** Units that are reserved of one counter. */
export interface ReservedEntry extends ChargedEntry {
  /** The attribute that the cost came from; undefined for the cost of the call itself. */
  readonly cost: string | undefined
  /** Whether the limit is in shadow, so that it says nothing to the caller. */
  readonly isShadow: boolean
  /**
   * Whether it keeps what was reserved: nodes count the limit themselves, or it is in shadow and
   * had no room.
   */
  readonly isKept: boolean
}

/** Flags of an entry, added up. */
const SHADOW = 1
const KEPT = 2

export interface ReservationHandle {
  /** Names the counter that lets the reservation be settled once. */
  readonly id: Hash64
  /** The partition of that counter: that of the first entry, so that both are in one slot. */
  readonly partition: number
  /** When it expires, in microseconds of the store's clock. */
  readonly expiresAt: number
  /** How long it lasts from its last extension on. */
  readonly ttlMs: number
  /** How often it was extended. */
  readonly extensions: number
  /** Whether a rule was decided by its posture: then nothing is known to be charged. */
  readonly isByPosture: boolean
  readonly entries: readonly ReservedEntry[]
}

const FORMAT = 'r1'
/** A handle of more characters was made by nobody: 64 limits, extended many times, need less. */
const HANDLE_LENGTH_MAX = 60_000
const DAMAGED = 'its checksum does not fit: it is damaged, or another deployment made it'

/** The key that handles are signed with. */
export function handleKey(secret: SipKey): SipKey {
  return signingKey(secret, 'reservation')
}

export function writeHandle(handle: ReservationHandle, key: SipKey): string {
  const { id, partition, expiresAt, ttlMs, extensions, isByPosture, entries } = handle
  const times = [expiresAt, ttlMs, extensions]
  const head = [id.hi >>> 0, id.lo >>> 0, partition, ...times, isByPosture ? 1 : 0]
  const texts = entries.map((entry) => {
    const { cost, isShadow, isKept } = entry
    const flags = (isShadow ? SHADOW : 0) + (isKept ? KEPT : 0)
    return `${formatEntry(entry)}.${flags}.${encodeCost(cost)}`
  })
  const numbers = head.map((number) => number.toString(36)).join('.')
  return signText([FORMAT, numbers, ...texts].join('~'), key)
}

/** Reads a handle; throws RESERVATION_INVALID if this key did not sign it. */
export function readHandle(text: unknown, key: SipKey): ReservationHandle {
  if (typeof text !== 'string' || text.length > HANDLE_LENGTH_MAX) {
    throw invalid('it is not the text that reserve returned')
  }
  const [format, head, ...entries] = readSigned(text, key)?.split('~') ?? []
  if (format !== FORMAT) throw invalid(DAMAGED)
  const numbers = (head ?? '').split('.').map((number) => Number.parseInt(number, 36))
  const [hi = 0, lo = 0, partition = 0, ...times] = numbers
  const [expiresAt = 0, ttlMs = 0, extensions = 0, byPosture = 0] = times
  if (!numbers.every(isCount)) throw invalid(DAMAGED)
  return {
    id: { hi: hi | 0, lo: lo | 0 },
    partition,
    expiresAt,
    ttlMs,
    extensions,
    isByPosture: byPosture === 1,
    entries: entries.map(readEntry),
  }
}

function readEntry(text: string): ReservedEntry {
  const fields = text.split('.')
  const entry = parseEntry(fields.slice(0, ENTRY_FIELDS))
  const [flagText, cost = ''] = fields.slice(ENTRY_FIELDS)
  const flags = Number(flagText)
  if (entry === undefined || !isCount(flags)) throw invalid(DAMAGED)
  const isShadow = (flags & SHADOW) !== 0
  return { ...entry, isShadow, isKept: (flags & KEPT) !== 0, cost: decodeCost(cost) }
}

/** Attribute names may have any character; those that separate fields are escaped. */
function encodeCost(cost: string | undefined): string {
  if (cost === undefined) return ''
  return encodeURIComponent(cost).replaceAll('.', '%2E').replaceAll('~', '%7E')
}

function decodeCost(text: string): string | undefined {
  return text === '' ? undefined : decodeURIComponent(text)
}

function invalid(why: string): SluiceError {
  return new SluiceError('RESERVATION_INVALID', `reservation: ${why}`)
}
