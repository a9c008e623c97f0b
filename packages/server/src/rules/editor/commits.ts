/**
 * Commits plans as versions, one at a time in this process. A plan is computed again if another
 * process committed first. A commit resolves when its version is active on this node.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Semaphore } from '../../lib/semaphore.js'
import type { Log } from '../../observability/log/logger.js'
import type { Change } from '../store/records.js'
import {
  ConflictError,
  DivergedError,
  type Position,
  type RuleStore,
  UnavailableError,
} from '../store/rule-store.js'
import type { RuleCatalog } from '../sync/rule-catalog.js'
import type { RuleFollower } from '../sync/rule-follower.js'
import { describeChanges, logChanges } from './audit.js'
import { EditError, type EditErrorCode } from './edit-errors.js'
import type { Meta } from './editor.js'

const TRIES_MAX = 8
/** Upper bound of the random wait after a conflict; doubled with each attempt. */
const WAIT_MS_FIRST = 10
/** Changes that may wait in this process, each for those before it. */
const WAITING_MAX = 200
/** Longer texts are cut: an audit line is not a place to store text. */
const WHY_LENGTH_MAX = 1000
const BY_LENGTH_MAX = 200

/** Errors that may come from an outdated catalog: another node may have committed a moment ago. */
const MAY_BE_STALE: readonly EditErrorCode[] = [
  'rule_unknown',
  'override_unknown',
  'candidate_unknown',
  'token_unknown',
  'rule_exists',
  'version_conflict',
]

export interface Plan<Result> {
  /** Empty: nothing is committed. */
  readonly changes: readonly Change[]
  /** Called with the version of the store when the changes are active. */
  readonly result: (version: number) => Result
}

export interface CommitsDeps {
  readonly follower: RuleFollower
  readonly log: Log
  /** Returns random bytes. @default those of node:crypto */
  readonly random?: ((count: number) => Uint8Array) | undefined
  /** @default the system's timers */
  readonly wait?: ((ms: number) => Promise<unknown>) | undefined
}

export class Commits {
  readonly #deps: CommitsDeps
  readonly #semaphore = new Semaphore(1)

  constructor(deps: CommitsDeps) {
    this.#deps = deps
  }

  /** Why rules cannot be changed on this node; undefined: they can. */
  get readOnly(): string | undefined {
    const { store, name } = this.#deps.follower
    if (store !== undefined) return undefined
    return `Rules come from ${name} (SLUICE_RULES); change it there`
  }

  get store(): RuleStore {
    const { store } = this.#deps.follower
    if (store === undefined) throw new EditError('read_only', this.readOnly ?? '')
    return store
  }

  /** Throws an `EditError` until the store was read. */
  get catalog(): RuleCatalog & { readonly position: Position } {
    const { follower } = this.#deps
    const { catalog } = follower
    if (!isRead(catalog)) {
      const why = follower.problem() ?? 'they are still being read'
      throw new EditError('rules_unavailable', `the rules are not known yet: ${why}`)
    }
    return catalog
  }

  /** Commits all changes of the plan, or rejects with an `EditError`. */
  async run<Result>(
    meta: Meta,
    plan: (catalog: RuleCatalog) => Plan<Result> | Promise<Plan<Result>>,
  ): Promise<Result> {
    void this.store
    return this.inTurn(async () => {
      let isFresh = false
      for (let attempt = 0; attempt < TRIES_MAX; attempt++) {
        const { catalog } = this
        const base = catalog.position.version
        const planned = await this.planOn(catalog, plan, isFresh)
        if (planned !== undefined) {
          if (planned.changes.length === 0) return planned.result(base)
          const version = await this.commit(base, meta, planned.changes)
          if (version !== undefined) return planned.result(version)
          await this.wait(WAIT_MS_FIRST * 2 ** attempt)
        }
        // After a stale plan or a conflict: read what another process committed.
        await this.refresh(0)
        isFresh = true
      }
      const message = `${TRIES_MAX} times another change was faster; nothing was changed. Try again`
      throw new EditError('rules_unavailable', message)
    })
  }

  /** Runs jobs one at a time, so that the changes of one process do not conflict. */
  async inTurn<Result>(job: () => Promise<Result>): Promise<Result> {
    if (this.#semaphore.waiting >= WAITING_MAX) {
      const message = `${WAITING_MAX} changes are waiting already; nothing was changed. Try again`
      throw new EditError('rules_unavailable', message)
    }
    return this.#semaphore.run(job)
  }

  /** Resolves to undefined if the plan failed because the catalog may be outdated. */
  private async planOn<Result>(
    catalog: RuleCatalog,
    plan: (catalog: RuleCatalog) => Plan<Result> | Promise<Plan<Result>>,
    isFresh: boolean,
  ): Promise<Plan<Result> | undefined> {
    try {
      return await plan(catalog)
    } catch (error) {
      const isStale = error instanceof EditError && MAY_BE_STALE.includes(error.code)
      if (isStale && !isFresh) return undefined
      throw toEditError(error)
    }
  }

  /** Resolves to the new version when it is active here; undefined after a conflict. */
  private async commit(
    base: number,
    meta: Meta,
    changes: readonly Change[],
  ): Promise<number | undefined> {
    const { follower, log } = this.#deps
    const { catalog } = this
    // The catalog changed during the planning: the plan may mix two versions.
    if (catalog.position.version !== base) return undefined
    const by = cut(meta.by, BY_LENGTH_MAX)
    const why = meta.why === undefined ? undefined : cut(meta.why, WHY_LENGTH_MAX)
    const described = describeChanges(catalog, changes)
    let position: Position
    try {
      position = await this.store.commit({ base, by, why, changes })
    } catch (error) {
      if (error instanceof ConflictError) return undefined
      throw toEditError(error)
    }
    logChanges(log, described, { by, why, version: position.version })
    try {
      await follower.refresh(position.version)
    } catch (error) {
      const editError = toEditError(error)
      if (!(editError instanceof EditError)) throw editError
      const message = `the change was made, as version ${position.version}, but is not active on this node yet: ${editError.message}`
      throw new EditError(editError.code, message, { cause: error })
    }
    return position.version
  }

  /** Reads the store now. */
  async refresh(version: number): Promise<void> {
    try {
      await this.#deps.follower.refresh(version)
    } catch (error) {
      throw toEditError(error)
    }
  }

  random(count: number): Buffer {
    return Buffer.from((this.#deps.random ?? randomBytes)(count))
  }

  private async wait(msMax: number): Promise<void> {
    const { wait = sleep } = this.#deps
    await wait(Math.ceil((msMax * this.random(2).readUInt16BE()) / 0xffff))
  }
}

/** Also replaces what no store can hold, such as a lone surrogate after the cut. */
function cut(text: string, most: number): string {
  return text.slice(0, most).replace(/\0|\p{Surrogate}/gu, '\ufffd')
}

function isRead(catalog: RuleCatalog): catalog is RuleCatalog & { readonly position: Position } {
  return catalog.position !== undefined
}

/** Converts errors of a store to `EditError`s; returns any other error unchanged. */
export function toEditError(error: unknown): unknown {
  if (error instanceof UnavailableError) {
    const known = error.isUncertain
      ? 'it is not known whether the change was made: check before you repeat it'
      : 'nothing was changed'
    return new EditError('rules_unavailable', `${error.message}; ${known}`, { cause: error })
  }
  if (error instanceof DivergedError) {
    const message = `${error.message}. Nothing is changed or followed until the store is adopted`
    return new EditError('rules_diverged', message, { cause: error })
  }
  return error
}
