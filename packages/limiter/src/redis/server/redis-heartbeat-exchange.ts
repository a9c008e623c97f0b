/** Heartbeats of regions, a key for each. They bypass the pipelines of decisions. */
import { SluiceError } from '@sluice/core'
import type { HeartbeatExchange } from '../../store.js'
import { type RunCommand, textOf } from '../connection/run-command.js'
import { regionKeyText } from '../protocol/redis-keys.js'
import { requireSameSecret } from './hash-secret.js'

/** Long enough to see which region was lost, and since when. */
const LIFE_MS = 600_000

export interface HeartbeatExchangeOptions {
  readonly prefix: string
  /** The secret that the counters must have been made with. */
  readonly secret: () => Uint8Array | undefined
  /** Sends to the node of the home slot; undefined while no command may be sent. */
  readonly run: () => RunCommand | undefined
}

export class RedisHeartbeatExchange implements HeartbeatExchange {
  readonly #options: HeartbeatExchangeOptions

  constructor(options: HeartbeatExchangeOptions) {
    this.#options = options
  }

  async write(region: string, text: string): Promise<void> {
    const { prefix } = this.#options
    const run = this.open()
    const secret = this.#options.secret()
    if (secret !== undefined) await requireSameSecret(run, { prefix, secret })
    await run(['SET', regionKeyText(prefix, region), text, 'PX', LIFE_MS])
  }

  async read(regions: readonly string[]): Promise<readonly (string | undefined)[]> {
    if (regions.length === 0) return []
    const { prefix } = this.#options
    const reply = await this.open()(['MGET', ...regions.map((each) => regionKeyText(prefix, each))])
    return Array.isArray(reply) ? reply.map((text) => textOf(text)) : []
  }

  private open(): RunCommand {
    const run = this.#options.run()
    if (run !== undefined) return run
    throw new SluiceError('STORE_FAILED', 'The store has not started: it has no heartbeats')
  }
}
