/** Where the known keys of a rule store go: a book of them would be a million objects. */
import type { StoredKey } from '../store/records.js'

export interface KeyReceiver {
  /**
   * What comes until `end` is everything, and what is not in it is gone; nothing of it is used
   * before. Called again where the last such reading was not ended.
   */
  begin(): void
  /** Of everything, or changes to what is in use. Without a body: removed. */
  receive(records: readonly StoredKey[]): void
  /** In use from now on, with the secret that hashes of keys depend on. */
  end(secret: string | undefined): void
  /** What came since `begin` is no longer everything: it is forgotten. */
  abandon(): void
}
