/** A remote store that a test silences. */
import {
  type Answer,
  type Groups,
  memoryStore,
  type Store,
  type TakeOptions,
} from '@sluice/limiter'
import type { Clock } from '@sluice/limiter'
import type { Take } from '@sluice/core'

/** A remote store over counters in this process. While it is silent, nothing runs. */
export class RemoteMemory implements Store {
  readonly inner: ReturnType<typeof memoryStore>
  readonly takes: { readonly groups: Groups<Take>; readonly options: TakeOptions | undefined }[] =
    []
  isSilent = false
  readonly remote

  constructor(clock: Clock, denyCacheMs: number) {
    this.inner = memoryStore({ clock })
    this.remote = {
      time: () => clock.now(),
      latestTime: () => clock.now(),
      fleetSize: () => 1,
      secret: Promise.resolve(new Uint8Array(16)),
      denyCacheMs,
      deadlineMs: 50,
      onAnswering: () => {},
    }
  }

  async take(groups: Groups<Take>, options?: TakeOptions): Promise<Groups<Answer>> {
    this.takes.push({ groups, options })
    if (this.isSilent) return groups.map((takes) => takes.map(() => 'not-run' as const))
    const outcomes = this.inner.sync.take(groups)
    const states = this.inner.sync.peek(groups)
    return outcomes.map((row, g) =>
      row.map((outcome, i) => ({ ...outcome, state: states[g]?.[i]?.state })),
    )
  }

  peek = (groups: Groups<Take>) => this.inner.peek(groups)
  give = (...given: Parameters<Store['give']>) => this.inner.give(...given)
  charge = (...charged: Parameters<Store['charge']>) => this.inner.charge(...charged)
  reset = (...keys: Parameters<Store['reset']>) => this.inner.reset(...keys)
  close = () => Promise.resolve()
}
