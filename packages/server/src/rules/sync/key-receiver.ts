/**
 * Receives the API keys of a rule store. They bypass the catalog, where a million of them would be
 * a million objects.
 */
import type { StoredKey } from '../store/records.js'

export interface KeyReceiver {
  /**
   * Starts a full replacement: keys that do not arrive before `end` are removed, and none is used
   * before `end`. Called again if the last full read was not completed.
   */
  begin(): void
  /** Takes keys of a full read, or changes to the keys in use. A null body removes the key. */
  receive(records: readonly StoredKey[]): void
  /** Puts the received keys in use, with the secret that their hashes depend on. */
  end(secret: string | undefined): void
  /** Drops what was received since `begin`: the full read failed. */
  abandon(): void
}
