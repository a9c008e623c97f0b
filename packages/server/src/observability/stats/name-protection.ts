/**
 * How names of callers are stored outside this process, in Redis and in the data directory.
 *
 * If the key secret is configured, it is stored in neither, and names are encrypted with it. If the
 * secret itself is stored in Redis or the data directory, encryption would hide nothing from a
 * reader of both; then only hashes are stored, and each process names only callers it has seen.
 */
import type { Config } from '../../config/config.js'
import { TextSealer } from './sealed-text.js'

export interface NameProtection {
  /** `clear`: in plain text, by configuration. `sealed`: encrypted. `hash`: not at all. */
  readonly form: 'clear' | 'sealed' | 'hash'
  /** Decrypts what other processes sealed, whatever the form of this one. */
  readonly sealer: TextSealer
}

/** `secret` is the key secret in use, configured or stored. */
export function nameProtection(
  { log, keySecret }: Pick<Config, 'log' | 'keySecret'>,
  secret: Uint8Array,
): NameProtection {
  const hidden = keySecret === undefined ? 'hash' : 'sealed'
  return { form: log.callers === 'clear' ? 'clear' : hidden, sealer: new TextSealer(secret) }
}
