/** Random bytes by Web Crypto, which every runtime has: the memory store runs without Node. */

const KEY_BYTES = 16

/** A key of hashes. */
export function randomKey(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(KEY_BYTES))
}

/**
 * A key of hashes, or undefined where the runtime forbids random values for now: Workers allow none
 * before the first request, while modules are loaded.
 */
export function randomKeyIfAllowed(): Uint8Array | undefined {
  try {
    return randomKey()
  } catch {
    return undefined
  }
}

/** A whole number from 0 to 2^40 - 1, each as likely as any other. */
export function randomSerial(): number {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2))
  return (high % 2 ** 8) * 2 ** 32 + low
}
