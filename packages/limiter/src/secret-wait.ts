/**
 * Waits for the hash secret that the store keeps. Until it is known nothing may reach the store,
 * because it would be counted under other names than on every other node.
 */
import { SluiceError } from '@sluice/core'
import type { Remote } from './store.js'

/** Most calls that wait at once; further ones are decided by fallback. */
const WAITERS_MAX = 10_000

/** Runtimes without `setImmediate` read their sockets before a timer of 0 ms. */
const afterSocketReads = (run: () => void): void => {
  if (typeof setImmediate === 'function') setImmediate(run)
  else setTimeout(run, 0)
}

export class SecretWait {
  /** Settles with the store's start. */
  readonly ready: Promise<void>
  readonly #waiters = new Set<(isKnown: boolean) => void>()
  #state: 'waiting' | 'known' | 'failed'

  /**
   * `use` installs the secret; what it throws is a failure. It is undefined if a secret was
   * configured: then nothing waits, but the start may still fail. If `ready` rejects, the secret
   * may still arrive; until then no call waits for it.
   */
  constructor(
    { secret, ready }: Pick<Remote, 'secret' | 'ready'>,
    use: ((key: Uint8Array) => void) | undefined,
  ) {
    this.#state = use === undefined ? 'known' : 'waiting'
    const used = secret.then((bytes) => {
      use?.(bytes)
      this.settle('known')
    })
    this.ready = Promise.all([used, ready]).then(() => {})
    // An unused `ready` must not end the process: calls are decided by fallback.
    this.ready.catch(() => this.settle('failed'))
  }

  get isKnown(): boolean {
    return this.#state === 'known'
  }

  requireKnown(): void {
    if (this.isKnown) return
    throw new SluiceError('STORE_FAILED', 'The store has not started: the key of hashes is unknown')
  }

  /** Resolves to whether the secret is known within `ms`. */
  isKnownWithin(ms: number): Promise<boolean> {
    if (this.#state !== 'waiting') return Promise.resolve(this.isKnown)
    if (this.#waiters.size >= WAITERS_MAX) return Promise.resolve(false)
    return new Promise((resolve) => {
      const waiter = (isKnown: boolean) => {
        clearTimeout(timer)
        this.#waiters.delete(waiter)
        resolve(isKnown)
      }
      // One read of the sockets comes first: the secret may have arrived while this process was
      // busy.
      const timer = setTimeout(() => afterSocketReads(() => waiter(false)), ms)
      this.#waiters.add(waiter)
    })
  }

  private settle(state: 'known' | 'failed'): void {
    if (this.#state !== 'known') this.#state = state
    for (const waiter of this.#waiters) waiter(this.isKnown)
  }
}
