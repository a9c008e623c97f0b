/**
 * Signals that stop the process, with one listener for as long as the process lives. A listener
 * that is removed and followed by another loses a signal that arrived in between: the signal waits
 * for the event loop, which then finds that its listener is gone.
 */
import process from 'node:process'

type OnSignal = (signal: NodeJS.Signals) => void

export class StopSignals {
  #onSignal: OnSignal
  readonly #remove: () => void

  constructor(onSignal: OnSignal, names: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT']) {
    this.#onSignal = onSignal
    const listener: OnSignal = (signal) => this.#onSignal(signal)
    for (const name of names) process.on(name, listener)
    this.#remove = () => {
      for (const name of names) process.off(name, listener)
    }
  }

  /** Replaces what a signal does, also one that arrived and was not handled yet. */
  handleBy(onSignal: OnSignal): void {
    this.#onSignal = onSignal
  }

  /** Leaves the signals to Node, which ends the process on them. */
  close(): void {
    this.#remove()
  }
}
