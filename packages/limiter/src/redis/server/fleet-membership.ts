/**
 * Counts the live nodes: each sends heartbeats to the store and is gone 1.5 s after its last one. A
 * node that loses the store splits limits by the last known number, so the number errs upwards: a
 * share that is too small refuses early, one that is too large admits too much.
 */
import { randomBytes } from 'node:crypto'
import { SluiceError } from '@sluice/core'
import { type RunCommand, runScript, luaScript, textOf } from '../connection/run-command.js'
import { type RedisReply, RedisReplyError } from '../connection/driver.js'
import { storeKeys } from '../protocol/redis-keys.js'
import { PeriodicTask, type Scheduler } from '../../periodic.js'

const BEAT_EVERY_MS = 500
/** A node may miss two heartbeats; the others notice its end within 2 s. */
const LIFE_MS = 1500
const NODE_ID_BYTES = 8

const SCRIPT = luaScript('fleet')

export interface HeartbeatReply {
  /** Live nodes, including this one. */
  readonly nodes: number
  /** Whether the store still knew this node at this heartbeat. */
  readonly wasKnown: boolean
  /** The fingerprint of the key secret; undefined if none is stored. */
  readonly fingerprint: string | undefined
  /** How many live nodes have a smaller id. It only changes when one of those joins or leaves. */
  readonly place: number
}

/** Sends one heartbeat, which keeps this node alive for this many milliseconds; 0 to leave. */
export type SendHeartbeat = (lifeMs: number) => Promise<HeartbeatReply>

/** 64 random bits, which are unique and reveal nothing. */
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
    throw new SluiceError('STORE_FAILED', 'Redis sent an unexpected reply to a heartbeat')
  }
  return { nodes, wasKnown: known === 1, fingerprint: textOf(fingerprint) || undefined, place }
}

export interface FleetMembershipOptions {
  readonly sendHeartbeat: SendHeartbeat
  /** Milliseconds of a monotonic clock. */
  readonly nowMs: () => number
  readonly scheduler: Scheduler
  /** The number of nodes before the first heartbeat. @default 1 */
  readonly fleetSize?: number | undefined
  /** Called with the reply to each heartbeat. */
  readonly onHeartbeat?: ((reply: HeartbeatReply) => void) | undefined
  /** Called once per change: Redis refuses the heartbeats, or accepts them again. */
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

  /** Live nodes, including this one, as last seen. */
  size(): number {
    return this.#size
  }

  /**
   * The place of this node among them, from 0. It is unique once all nodes have seen the same
   * fleet.
   */
  place(): number {
    return this.#place
  }

  /** How long ago the store replied, in milliseconds; Infinity before the first time. */
  ageMs(): number {
    return this.#options.nowMs() - this.#heartbeatMs
  }

  start(): void {
    if (this.#hasLeft) return
    this.#hasBegun = true
    this.#heartbeats.start()
  }

  /** Leaves the fleet at once. The others would notice anyway, so errors do not matter. */
  async leave(): Promise<void> {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.#heartbeats.stop()
    if (!this.#hasBegun) return
    try {
      await this.#options.sendHeartbeat(0)
    } catch {}
  }

  /** Rejects if the heartbeat fails; the last seen number stays. */
  private async sendHeartbeat(): Promise<void> {
    const { sendHeartbeat, nowMs, onHeartbeat } = this.#options
    const sentMs = nowMs()
    const reply = await sendHeartbeat(LIFE_MS).catch((error: unknown) => this.onFailed(error))
    if (this.#hasLeft) return
    this.onRecovered()
    this.#heartbeatMs = sentMs
    // If this node had been forgotten (by a flush, a failover, a clock step, a long pause), other
    // live nodes may have been too. A smaller number, and the place among so few, is then believed
    // only at the next heartbeat.
    if (reply.wasKnown || reply.nodes > this.#size) {
      this.#size = Math.max(1, reply.nodes)
      this.#place = Math.min(reply.place, this.#size - 1)
    }
    onHeartbeat?.(reply)
  }

  /** An unreachable Redis is reported by more frequent users of it. */
  private onFailed(error: unknown): never {
    const isRefused = error instanceof RedisReplyError && error.message !== this.#refusal
    if (isRefused && !this.#hasLeft) {
      this.#refusal = error.message
      this.#options.onProblem?.(
        `Redis refuses the heartbeats of this node (${error.message}): it does not know how many ` +
          `nodes there are, and while Redis is down uses 1/${this.#size} of each limit`,
      )
    }
    throw error
  }

  private onRecovered(): void {
    if (this.#refusal === '') return
    this.#refusal = ''
    this.#options.onProblem?.('Redis accepts the heartbeats of this node again')
  }
}
