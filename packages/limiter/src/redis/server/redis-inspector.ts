/**
 * Reads one counter as it is stored in Redis, for the admin API. It does not use the pipelines,
 * because no decision waits for it, and needs no rights beyond STORE_ACL; the memory of a key is
 * left out if the user lacks the right to it.
 */
import { type CounterKey, layoutOf, type Limit, SluiceError } from '@sluice/core'
import type { Inspector, StoredCounter } from '../../store.js'
import { type RunCommand, runOnSlot } from '../connection/run-command.js'
import { type RedisDriver, RedisReplyError } from '../connection/driver.js'
import { codeOf } from '../pipeline/error-actions.js'
import { counterKeyText, hashField, hashFieldText, hashKeyText } from '../protocol/redis-keys.js'
import type { Layout } from '../redis-options.js'
import { PARTITION_SLOTS, PARTITION_TAGS } from '../request/partitions.js'

/** The timeout of one command, in milliseconds. */
const COMMAND_TIMEOUT_MS = 1000

type Sizes = Pick<StoredCounter, 'ttlMs' | 'bytes'>

const NOTHING: Sizes = { ttlMs: null, bytes: null }

export class RedisInspector implements Inspector {
  readonly #driver: () => RedisDriver | undefined
  readonly #prefix: string
  readonly #layout: Layout
  #mayMeasure = true

  constructor(
    /** Undefined while the store is not ready. */
    driver: () => RedisDriver | undefined,
    { prefix, layout }: { readonly prefix: string; readonly layout: Layout },
  ) {
    this.#driver = driver
    this.#prefix = prefix
    this.#layout = layout
  }

  async inspect(key: CounterKey, limit: Limit): Promise<StoredCounter> {
    const driver = this.#driver()
    const tag = PARTITION_TAGS[key.partition]
    const slot = PARTITION_SLOTS[key.partition]
    if (driver === undefined || tag === undefined || slot === undefined) {
      throw new SluiceError('STORE_FAILED', 'The store has not started: nothing is known')
    }
    const run = runOnSlot(driver, slot, COMMAND_TIMEOUT_MS)
    // A log has its own key in either layout.
    const isPacked = this.#layout === 'packed' && layoutOf(limit) !== undefined
    const name = isPacked
      ? hashFieldText(this.#prefix, tag, key)
      : counterKeyText(this.#prefix, tag, key)
    const sizes = isPacked
      ? await this.inspectField(run, hashKeyText(this.#prefix, tag, key), hashField(key))
      : await this.inspectKey(run, name)
    // Read last, because a redirection may have changed the node meanwhile.
    return { key: name, node: driver.channelOf(slot)?.address ?? null, ...sizes }
  }

  private async inspectKey(run: RunCommand, key: string): Promise<Sizes> {
    const ttlMs = timeLeft(await run(['PTTL', key]))
    if (ttlMs === undefined) return NOTHING
    const bytes = (await this.measure(run, key)) ?? (await run(['STRLEN', key]))
    return { ttlMs, bytes: typeof bytes === 'number' && bytes > 0 ? bytes : null }
  }

  /** A field has no TTL of its own, and its memory is its share of the hash. */
  private async inspectField(run: RunCommand, hash: string, field: Buffer): Promise<Sizes> {
    const value = await run(['HGET', hash, field])
    const ttlMs = timeLeft(await run(['PTTL', hash]))
    if (!Buffer.isBuffer(value) || ttlMs === undefined) return NOTHING
    const whole = await this.measure(run, hash)
    const fields = await run(['HLEN', hash])
    const isShared = whole !== undefined && typeof fields === 'number' && fields > 0
    return { ttlMs, bytes: isShared ? Math.ceil(whole / fields) : field.length + value.length }
  }

  /** The memory of a key; undefined if the user may not ask, which is tried once. */
  private async measure(run: RunCommand, key: string): Promise<number | undefined> {
    if (!this.#mayMeasure) return undefined
    try {
      const bytes = await run(['MEMORY', 'USAGE', key])
      return typeof bytes === 'number' ? bytes : undefined
    } catch (error) {
      if (!(error instanceof RedisReplyError)) throw error
      if (codeOf(error.message) === 'NOPERM') this.#mayMeasure = false
      return undefined
    }
  }
}

/** Null if it never expires, undefined if it does not exist. */
function timeLeft(reply: unknown): number | null | undefined {
  if (typeof reply !== 'number' || reply === -2) return undefined
  return reply < 0 ? null : reply
}
