/**
 * The key of all hashes, where the store keeps it: until it is known nothing may reach the store,
 * because it would count under other names than every other node.
 */
import { SluiceError } from '@sluice/core'
import type { Remote } from './store.js'

/** Calls that wait for it at once; further ones are answered without. */
const WAITERS_MAX = 10_000

export class SecretWait {
  /** Settles with the store's start. */
  readonly ready: Promise<void>
  readonly #waiters = new Set<(isKnown: boolean) => void>()
  #state: 'waiting' | 'known' | 'failed'

  /**
   * `use` takes the key over; what it throws is a failure as well. Where a key was given none is
   * waited for, but the start may still fail. Where `ready` rejects the key may still come: until
   * then nobody waits for it.
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
    // Whoever does not ask whether it is ready is answered by posture, and not ended.
    this.ready.catch(() => this.settle('failed'))
  }

  get isKnown(): boolean {
    return this.#state === 'known'
  }

  requireKnown(): void {
    if (this.isKnown) return
    throw new SluiceError('STORE_FAILED', 'The store has not started: the key of hashes is unknown')
  }

  /** Whether it is known within so many milliseconds. */
  isKnownWithin(ms: number): Promise<boolean> {
    if (this.#state !== 'waiting') return Promise.resolve(this.isKnown)
    if (this.#waiters.size >= WAITERS_MAX) return Promise.resolve(false)
    return new Promise((resolve) => {
      const waiter = (isKnown: boolean) => {
        clearTimeout(timer)
        this.#waiters.delete(waiter)
        resolve(isKnown)
      }
      // One read of the sockets comes first: the key may have arrived while this process was busy.
      const timer = setTimeout(() => setImmediate(waiter, false), ms)
      this.#waiters.add(waiter)
    })
  }

  private settle(state: 'known' | 'failed'): void {
    if (this.#state !== 'known') this.#state = state
    for (const waiter of this.#waiters) waiter(this.isKnown)
  }
}
