/**
 * Publishes a text of each node in Redis, such as a status snapshot for the admin API and the
 * dashboard. No decision depends on it, and it bypasses the pipelines of decisions. A post that
 * fails is not repeated.
 */
import { SluiceError } from '@sluice/core'
import { monotonicMs } from '../../clock.js'
import type { NodeExchange } from '../../store.js'
import { type RunCommand, type CommandWord, textOf } from '../connection/run-command.js'
import { boardKeyText, storeKeys } from '../protocol/redis-keys.js'

/** The TTL of a text: nodes post every few seconds, and a few posts may fail. */
const LIFE_MS = 15_000
const TEXT_LENGTH_MAX = 1024 * 1024
/** The most nodes that a read returns. */
const NODES_MAX = 1000
/** Decisions share the connection and must not wait behind the texts of a whole fleet. */
const TEXTS_AT_ONCE = 4
/** The timeout of a whole read, in milliseconds. */
const READ_MS_MAX = 2000

export interface NodeExchangeOptions {
  readonly prefix: string
  /** The id of this node in the fleet; undefined while no command may be sent. */
  readonly node: () => string | undefined
  /** Sends to the node of the home slot; undefined while no command may be sent. */
  readonly run: () => RunCommand | undefined
  /** Milliseconds of a clock that never steps. */
  readonly nowMs?: (() => number) | undefined
}

export class RedisNodeExchange implements NodeExchange {
  readonly #options: NodeExchangeOptions
  readonly #nowMs: () => number
  #isPosting = false
  #hasPosted = false
  #isClosed = false

  constructor(options: NodeExchangeOptions) {
    this.#options = options
    this.#nowMs = options.nowMs ?? monotonicMs
  }

  async post(text: string): Promise<void> {
    if (text.length > TEXT_LENGTH_MAX) {
      const found = `found ${text.length} characters; accepted: at most ${TEXT_LENGTH_MAX}`
      throw new SluiceError('OPTION_INVALID', `a text for the board: ${found}`)
    }
    const { run, key } = this.open()
    if (this.#isClosed) throw new SluiceError('STORE_FAILED', 'The store was closed')
    if (this.#isPosting) {
      throw new SluiceError('STORE_FAILED', 'The last text for the board is still on its way')
    }
    this.#isPosting = true
    this.#hasPosted = true
    try {
      await run(['SET', key, text, 'PX', LIFE_MS])
    } finally {
      this.#isPosting = false
    }
  }

  async read(): Promise<readonly string[]> {
    const { run } = this.open()
    const { prefix } = this.#options
    const untilMs = this.#nowMs() + READ_MS_MAX
    const reply = await run([
      'ZRANGEBYSCORE',
      storeKeys(prefix).fleet,
      '-inf',
      '+inf',
      'LIMIT',
      0,
      NODES_MAX,
    ])
    const nodes = Array.isArray(reply) ? reply.map((node) => textOf(node)) : []
    const keys = nodes.flatMap((node) => (node === undefined ? [] : boardKeyText(prefix, node)))
    const texts: string[] = []
    for (let i = 0; i < keys.length; i += TEXTS_AT_ONCE) {
      if (this.#nowMs() > untilMs) {
        const found = `was not read within ${READ_MS_MAX} ms`
        throw new SluiceError('STORE_FAILED', `The board of ${keys.length} nodes ${found}`)
      }
      texts.push(...(await readTexts(run, keys.slice(i, i + TEXTS_AT_ONCE))))
    }
    return texts
  }

  /** Deletes the text of this node. Never rejects: the text would expire in seconds anyway. */
  async close(): Promise<void> {
    this.#isClosed = true
    if (!this.#hasPosted) return
    try {
      const { run, key } = this.open()
      await run(['DEL', key])
    } catch {}
  }

  private open(): { readonly run: RunCommand; readonly key: string } {
    const run = this.#options.run()
    const node = this.#options.node()
    if (run === undefined || node === undefined) {
      throw new SluiceError('STORE_FAILED', 'The store has not started: it has no board')
    }
    return { run, key: boardKeyText(this.#options.prefix, node) }
  }
}

async function readTexts(
  run: RunCommand,
  keys: readonly CommandWord[],
): Promise<readonly string[]> {
  const reply = await run(['MGET', ...keys])
  const texts = Array.isArray(reply) ? reply.map((text) => textOf(text)) : []
  return texts.filter((text) => text !== undefined)
}
