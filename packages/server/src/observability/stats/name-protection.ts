/**
 * How the names of callers leave the memory of this process, for Redis and for the data directory.
 *
 * Where the key secret was given, it lies beside neither, and names are sealed with it. Where it is
 * kept in Redis or in the data directory, a seal would lie beside its key and hide nothing from a
 * reader of both; then only hashes leave, and each process names the callers that it met itself.
 */
import type { Config } from '../../config/config.js'
import { TextSealer } from './sealed-text.js'

export interface NameProtection {
  /** `clear`: as they are, by configuration. `hash`: not at all. */
  readonly form: 'clear' | 'sealed' | 'hash'
  /** Opens what other processes sealed, also where this one seals nothing. */
  readonly sealer: TextSealer
}

/** `secret`: the key secret in use, wherever it came from. */
export function nameProtection(
  { log, keySecret }: Pick<Config, 'log' | 'keySecret'>,
  secret: Uint8Array,
): NameProtection {
  const hidden = keySecret === undefined ? 'hash' : 'sealed'
  return { form: log.callers === 'clear' ? 'clear' : hidden, sealer: new TextSealer(secret) }
}
