import { SluiceError } from '@sluice/core'
import type { RedisChannel, RedisDriver } from './driver.js'

/** The error for a server that is not what the URL says; waiting does not help. */
export function unfitTarget(address: string, problem: string, accepted: string): SluiceError {
  return new SluiceError('STORE_UNFIT', `Redis at ${address}: ${problem}; accepted: ${accepted}`)
}

/** The listeners of a driver. */
export class DriverListeners {
  readonly #ready: Parameters<RedisDriver['onReady']>[0][] = []
  readonly #problem: Parameters<RedisDriver['onProblem']>[0][] = []

  onReady(listener: (channel: RedisChannel) => void): void {
    this.#ready.push(listener)
  }

  onProblem(listener: (problem: Error) => void): void {
    this.#problem.push(listener)
  }

  /** A listener that throws must not stop the driver or end the process. */
  ready(channel: RedisChannel): void {
    for (const listener of this.#ready) {
      try {
        listener(channel)
      } catch (error) {
        this.problem(new Error('A connection listener threw', { cause: error }))
      }
    }
  }

  problem(problem: Error): void {
    for (const listener of this.#problem) {
      try {
        listener(problem)
      } catch {
        // A listener that throws has no one to report to.
      }
    }
  }
}
