/** Remembers whether the server answers, and reports each change once. */
import type { RemoteSettings, RemoteState } from './remote-options.js'

type StateDeps = Pick<RemoteSettings, 'base' | 'onState' | 'logger' | 'posture' | 'fallback'>

export class ServerState {
  readonly #deps: StateDeps
  #current: RemoteState = { state: 'answering', detail: '' }

  constructor(deps: StateDeps) {
    this.#deps = deps
  }

  get current(): RemoteState {
    return this.#current
  }

  set(state: RemoteState): void {
    const isChange = state.state !== this.#current.state
    // The detail is the latest one also while the state stays: a cause may follow another.
    this.#current = state
    if (!isChange) return
    const { base, logger, onState, posture, fallback } = this.#deps
    guard(() => onState(state))
    const subject = `sluice: remote limiter: ${base}`
    if (state.state === 'answering') {
      guard(() => logger?.warn(`${subject} answers again`))
      return
    }
    const meanwhile = fallback === undefined ? `posture ${posture}` : 'the fallback'
    const problem = PROBLEMS[state.state]
    guard(() => logger?.error(`${subject} ${problem}: ${state.detail}; decided by ${meanwhile}`))
  }
}

const PROBLEMS = {
  unreachable: 'does not answer',
  unauthorized: 'does not accept the token',
  unexpected: 'is no decision API of Sluice',
} as const

/** A mistake in a logger or a listener must not cost a decision. */
function guard(run: () => unknown): void {
  try {
    run()
  } catch {}
}
