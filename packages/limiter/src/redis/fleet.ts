/**
 * Which nodes live: each beats on the store and is gone 1.5 s after its last beat. A node that
 * loses the store shares limits by the last number it saw, so the number errs upwards: a share too
 * small refuses early, a share too large admits too much.
 */
import { randomBytes } from 'node:crypto'
import { SluiceError } from '@sluice/core'
import { type Ask, askScript, readScript, textOf } from './ask.js'
import { type RedisReply, RedisReplyError } from './driver.js'
import { storeKeys } from './key.js'
import { Rounds, type Scheduler } from '../rounds.js'

const BEAT_EVERY_MS = 500
/** A node may miss two beats; the others see its end within 2 s. */
const LIFE_MS = 1500
const NODE_ID_BYTES = 8

const SCRIPT = readScript('fleet')

export interface Beaten {
  /** Live nodes, this one among them. */
  readonly nodes: number
  /** Whether the store still knew this node when it beat. */
  readonly wasKnown: boolean
  /** Of the key secret; undefined: none is stored. */
  readonly fingerprint: string | undefined
  /** How many of the live nodes have a lesser id: the same until one of those comes or goes. */
  readonly place: number
}

/** One beat: this node lives for so many milliseconds more; 0: it leaves. */
export type Beat = (lifeMs: number) => Promise<Beaten>

/** 64 random bits: no two nodes share one, and nothing is to be learnt from it. */
export function drawNodeId(): string {
  return randomBytes(NODE_ID_BYTES).toString('hex')
}

export function fleetBeat(ask: Ask, options: { prefix: string; node: string }): Beat {
  const { fleet, fingerprint, places } = storeKeys(options.prefix)
  const keys = [fleet, fingerprint, places]
  return async (lifeMs) => readBeaten(await askScript(ask, SCRIPT, keys, [options.node, lifeMs]))
}

function readBeaten(reply: RedisReply): Beaten {
  const [nodes, known, fingerprint = null, place] = Array.isArray(reply) ? reply : []
  if (typeof nodes !== 'number' || typeof known !== 'number' || typeof place !== 'number') {
    throw new SluiceError('STORE_FAILED', 'Redis answered a beat of the fleet with something else')
  }
  return { nodes, wasKnown: known === 1, fingerprint: textOf(fingerprint) || undefined, place }
}

export interface FleetOptions {
  readonly beat: Beat
  /** Milliseconds by a clock that never steps. */
  readonly nowMs: () => number
  readonly scheduler: Scheduler
  /** How many nodes there are before the first beat. @default 1 */
  readonly fleetSize?: number | undefined
  /** Called with the answer to each beat. */
  readonly onBeat?: ((beaten: Beaten) => void) | undefined
  /** Called once per change: Redis refuses the beats, or takes them again. */
  readonly onProblem?: ((text: string) => void) | undefined
}

export class Fleet {
  readonly #options: FleetOptions
  readonly #rounds: Rounds
  #size: number
  #place = 0
  #seenMs = -Infinity
  #hasBegun = false
  #hasLeft = false
  #refusal = ''

  constructor(options: FleetOptions) {
    this.#options = options
    this.#size = options.fleetSize ?? 1
    this.#rounds = new Rounds(BEAT_EVERY_MS, () => this.beat(), options.scheduler)
  }

  /** Live nodes, this one among them, as last seen. */
  size(): number {
    return this.#size
  }

  /** This node's place among them, from 0 on: no two have the same once all have seen the same. */
  place(): number {
    return this.#place
  }

  /** How long ago the store said so, in milliseconds; Infinity before the first time. */
  ageMs(): number {
    return this.#options.nowMs() - this.#seenMs
  }

  start(): void {
    if (this.#hasLeft) return
    this.#hasBegun = true
    this.#rounds.start()
  }

  /** Tells the others at once; they would notice anyway, so a store that is gone is no matter. */
  async leave(): Promise<void> {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.#rounds.stop()
    if (!this.#hasBegun) return
    try {
      await this.#options.beat(0)
    } catch {}
  }

  /** Rejects where a beat fails; the last seen number stays. */
  private async beat(): Promise<void> {
    const { beat, nowMs, onBeat } = this.#options
    const sentMs = nowMs()
    const beaten = await beat(LIFE_MS).catch((error: unknown) => this.failed(error))
    if (this.#hasLeft) return
    this.recovered()
    this.#seenMs = sentMs
    // If this node had been forgotten (a flush, a failover, a clock that stepped, a long pause),
    // so may others have been that live: a smaller number is then believed at the next beat only,
    // and a place among so few as well.
    if (beaten.wasKnown || beaten.nodes > this.#size) {
      this.#size = Math.max(1, beaten.nodes)
      this.#place = Math.min(beaten.place, this.#size - 1)
    }
    onBeat?.(beaten)
  }

  /** A Redis that cannot be reached is reported by those who ask it more often. */
  private failed(error: unknown): never {
    const isRefused = error instanceof RedisReplyError && error.message !== this.#refusal
    if (isRefused && !this.#hasLeft) {
      this.#refusal = error.message
      this.#options.onProblem?.(
        `Redis refuses the heartbeats of this node (${error.message}): it does not know how many ` +
          `nodes there are, and without Redis takes its share of a limit for 1 of ${this.#size}`,
      )
    }
    throw error
  }

  private recovered(): void {
    if (this.#refusal === '') return
    this.#refusal = ''
    this.#options.onProblem?.('Redis takes the heartbeats of this node again')
  }
}
