/**
 * Which nodes live: each beats on the store and is gone 1.5 s after its last beat. A node that
 * loses the store shares limits by the last number it saw, so the number errs upwards: a share too
 * small refuses early, a share too large admits too much.
 */
import { randomBytes } from 'node:crypto'
import { SluiceError } from '@sluice/core'
import { type RunCommand, runScript, readLuaScript, textOf } from '../connection/run-command.js'
import { type RedisReply, RedisReplyError } from '../connection/driver.js'
import { storeKeys } from '../protocol/redis-keys.js'
import { PeriodicTask, type Scheduler } from '../../periodic.js'

const BEAT_EVERY_MS = 500
/** A node may miss two beats; the others see its end within 2 s. */
const LIFE_MS = 1500
const NODE_ID_BYTES = 8

const SCRIPT = readLuaScript('fleet')

export interface HeartbeatReply {
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
export type SendHeartbeat = (lifeMs: number) => Promise<HeartbeatReply>

/** 64 random bits: no two nodes share one, and nothing is to be learnt from it. */
export function randomNodeId(): string {
  return randomBytes(NODE_ID_BYTES).toString('hex')
}

export function heartbeatSender(
  run: RunCommand,
  options: { prefix: string; node: string },
): SendHeartbeat {
  const { fleet, fingerprint, places } = storeKeys(options.prefix)
  const keys = [fleet, fingerprint, places]
  return async (lifeMs) =>
    readHeartbeatReply(await runScript(run, SCRIPT, keys, [options.node, lifeMs]))
}

function readHeartbeatReply(reply: RedisReply): HeartbeatReply {
  const [nodes, known, fingerprint = null, place] = Array.isArray(reply) ? reply : []
  if (typeof nodes !== 'number' || typeof known !== 'number' || typeof place !== 'number') {
    throw new SluiceError('STORE_FAILED', 'Redis answered a beat of the fleet with something else')
  }
  return { nodes, wasKnown: known === 1, fingerprint: textOf(fingerprint) || undefined, place }
}

export interface FleetMembershipOptions {
  readonly sendHeartbeat: SendHeartbeat
  /** Milliseconds by a clock that never steps. */
  readonly nowMs: () => number
  readonly scheduler: Scheduler
  /** How many nodes there are before the first beat. @default 1 */
  readonly fleetSize?: number | undefined
  /** Called with the answer to each beat. */
  readonly onHeartbeat?: ((reply: HeartbeatReply) => void) | undefined
  /** Called once per change: Redis refuses the beats, or takes them again. */
  readonly onProblem?: ((text: string) => void) | undefined
}

export class FleetMembership {
  readonly #options: FleetMembershipOptions
  readonly #heartbeats: PeriodicTask
  #size: number
  #place = 0
  #heartbeatMs = -Infinity
  #hasBegun = false
  #hasLeft = false
  #refusal = ''

  constructor(options: FleetMembershipOptions) {
    this.#options = options
    this.#size = options.fleetSize ?? 1
    this.#heartbeats = new PeriodicTask(
      BEAT_EVERY_MS,
      () => this.sendHeartbeat(),
      options.scheduler,
    )
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
    return this.#options.nowMs() - this.#heartbeatMs
  }

  start(): void {
    if (this.#hasLeft) return
    this.#hasBegun = true
    this.#heartbeats.start()
  }

  /** Tells the others at once; they would notice anyway, so a store that is gone is no matter. */
  async leave(): Promise<void> {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.#heartbeats.stop()
    if (!this.#hasBegun) return
    try {
      await this.#options.sendHeartbeat(0)
    } catch {}
  }

  /** Rejects where a beat fails; the last seen number stays. */
  private async sendHeartbeat(): Promise<void> {
    const { sendHeartbeat, nowMs, onHeartbeat } = this.#options
    const sentMs = nowMs()
    const reply = await sendHeartbeat(LIFE_MS).catch((error: unknown) => this.onFailed(error))
    if (this.#hasLeft) return
    this.onRecovered()
    this.#heartbeatMs = sentMs
    // If this node had been forgotten (a flush, a failover, a clock that stepped, a long pause),
    // so may others have been that live: a smaller number is then believed at the next beat only,
    // and a place among so few as well.
    if (reply.wasKnown || reply.nodes > this.#size) {
      this.#size = Math.max(1, reply.nodes)
      this.#place = Math.min(reply.place, this.#size - 1)
    }
    onHeartbeat?.(reply)
  }

  /** A Redis that cannot be reached is reported by those who ask it more often. */
  private onFailed(error: unknown): never {
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

  private onRecovered(): void {
    if (this.#refusal === '') return
    this.#refusal = ''
    this.#options.onProblem?.('Redis takes the heartbeats of this node again')
  }
}
