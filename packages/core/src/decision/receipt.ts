/**
 * A receipt: the text form of what one decision charged, to be stored and refunded later.
 *
 * It names rule and limit, not their numbers: a refund uses the active limit, because a counter
 * continues when its limit changes. A keyed checksum rejects damaged and forged receipts.
 */
import type { Outcome } from '../algorithms/algorithm.js'
import { SluiceError } from '../errors.js'
import { type CounterKey, deriveKey } from '../key.js'
import { isCount } from '../numbers.js'
import { hashTexts, type SipKey } from '../sip-hash.js'
import { passes } from './outcomes.js'
import { candidateId, type Plan } from './plan.js'

export interface ReceiptEntry {
  readonly rule: string
  readonly limitName: string
  readonly candidate: boolean
  /** The limit's size and window when it was taken, to find the same tier again. */
  readonly max: number
  readonly windowMs: number
  readonly capacity: number
  readonly key: CounterKey
  readonly amount: number
  readonly at: number
}

const FORMAT = '1'
const FIELDS = 11

/**
 * Writes the receipt of all granted units, shadow groups included; undefined if nothing was
 * granted. The serial number distinguishes calls that took the same at the same instant.
 */
export function writeReceipt(
  plan: Plan,
  outcomes: readonly (readonly Outcome[])[],
  { secret, serial }: { readonly secret: SipKey; readonly serial: number },
): string | undefined {
  // A refusal has no receipt: what a limit charges for it is a penalty and is not refunded.
  if (!passes(outcomes[0] ?? [])) return undefined
  const entries = plan.groups.flatMap((takes, g) =>
    takes.flatMap(({ key, limit: { max, windowMs, capacity, name }, compiled: { rule } }, i) => {
      const { granted = 0, at = 0 } = outcomes[g]?.[i] ?? {}
      if (granted === 0) return []
      const candidate = plan.shadows[g - 1] === candidateId(rule) ? 1 : 0
      const { hi, lo, partition } = key
      const numbers = [
        candidate,
        hi >>> 0,
        lo >>> 0,
        partition,
        granted,
        at,
        max,
        windowMs,
        capacity,
      ]
      return [rule, name, ...numbers.map((number) => number.toString(36))].join('.')
    }),
  )
  if (entries.length === 0) return undefined
  const body = [FORMAT, serial.toString(36), ...entries].join('~')
  return `${body}~${checksum(body, secret)}`
}

/** Returns what a receipt charged; throws RECEIPT_INVALID if this secret did not sign it. */
export function readReceipt(receipt: string, secret: SipKey): readonly ReceiptEntry[] {
  const end = receipt.lastIndexOf('~')
  const body = receipt.slice(0, Math.max(0, end))
  const [format, , ...entries] = body.split('~')
  if (format !== FORMAT || receipt.slice(end + 1) !== checksum(body, secret)) {
    throw invalid('its checksum does not fit: it is damaged, or another deployment made it')
  }
  return entries.map(readEntry)
}

function readEntry(entry: string): ReceiptEntry {
  const fields = entry.split('.')
  const [rule = '', limitName = '', ...texts] = fields
  const numbers = texts.map((text) => Number.parseInt(text, 36))
  const [candidate, hi = 0, lo = 0, partition = 0, amount = 0, at = 0, ...size] = numbers
  const [max = 0, windowMs = 0, capacity = 0] = size
  if (fields.length !== FIELDS || !numbers.every(isCount)) throw invalid('an entry is damaged')
  const key = { hi: hi | 0, lo: lo | 0, partition }
  const isCandidate = candidate === 1
  return { rule, limitName, candidate: isCandidate, max, windowMs, capacity, key, amount, at }
}

function checksum(body: string, secret: SipKey): string {
  const { hi, lo } = hashTexts(deriveKey(secret, 'receipt'), [body])
  return `${(hi >>> 0).toString(36)}.${(lo >>> 0).toString(36)}`
}

function invalid(why: string): SluiceError {
  return new SluiceError('RECEIPT_INVALID', `receipt: ${why}`)
}
