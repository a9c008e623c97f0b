/** A receipt: the text form of what one decision charged, to be stored and refunded later. */
import type { Outcome } from '../algorithms/algorithm.js'
import { SluiceError } from '../errors.js'
import type { SipKey } from '../sip-hash.js'
import { type ChargedEntry, formatEntry, grantedTakes, parseEntry } from './charged-entry.js'
import { passes } from './outcomes.js'
import type { Plan } from './plan.js'
import { readSigned, signingKey, signText } from './signed-text.js'

const FORMAT = '1'

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
  // Places are given back when the call ends, not by a refund.
  const granted = grantedTakes(plan, outcomes).filter(({ take }) => !take.compiled.isPlaces)
  const entries = granted.map(({ entry }) => formatEntry(entry))
  if (entries.length === 0) return undefined
  const body = [FORMAT, serial.toString(36), ...entries].join('~')
  return signText(body, signingKey(secret, 'receipt'))
}

/** Returns what a receipt charged; throws RECEIPT_INVALID if this secret did not sign it. */
export function readReceipt(receipt: string, secret: SipKey): readonly ChargedEntry[] {
  const [format, , ...entries] =
    readSigned(receipt, signingKey(secret, 'receipt'))?.split('~') ?? []
  if (format !== FORMAT) {
    throw invalid('its checksum does not fit: it is damaged, or another deployment made it')
  }
  return entries.map((text) => {
    const entry = parseEntry(text.split('.'))
    if (entry === undefined) throw invalid('an entry is damaged')
    return entry
  })
}

function invalid(why: string): SluiceError {
  return new SluiceError('RECEIPT_INVALID', `receipt: ${why}`)
}
