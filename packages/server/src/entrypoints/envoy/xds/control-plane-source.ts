/**
 * Follows the configuration of a control plane over xDS: aggregated discovery, state of the world,
 * as envoyproxy/ratelimit does with `CONFIG_TYPE=GRPC_XDS_SOTW`.
 *
 * A response without errors becomes active and is acknowledged; one with errors is refused with
 * the reason, and changes nothing. Nor does a lost stream: the last good configuration stays.
 *
 * A new stream begins without a version, so that the control plane sends what it has. Envoy Gateway
 * counts its versions anew when it restarts: it would take an old version for the current one.
 */
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { show } from '@sluice/core'
import { messageOf } from '../../../lib/message-of.js'
import { monotonicMs } from '../../../lib/wall-clock.js'
import type { Log } from '../../../observability/log/logger.js'
import { ActiveConfig } from '../config/active-config.js'
import type { EnvoyConfig, EnvoyConfigSource } from '../config/config-source.js'
import { CONFIG_TYPE_URL, parseResponse } from '../config/parse-resources.js'
import {
  decodeDiscoveryResponse,
  type DiscoveryNode,
  type DiscoveryResponse,
  encodeDiscoveryRequest,
} from '../protobuf/discovery-codec.js'
import { type AdsStream, type AdsStreamOptions, openAdsStream } from './ads-stream.js'

export interface ControlPlaneOptions extends Omit<AdsStreamOptions, 'connectMs'> {
  readonly node: DiscoveryNode
  /** Whether several resources may have one domain. @default false */
  readonly mergeDomains?: boolean | undefined
  readonly backoff: Backoff
}

/** The pauses between two streams: each at most twice the last one, with jitter. */
export interface Backoff {
  readonly firstMs: number
  readonly mostMs: number
}

export interface ControlPlaneDeps {
  readonly log: Log
  /** From 0 to 1. */
  readonly random: () => number
  /** Replaceable in tests. */
  readonly times?: Partial<typeof TIMES> | undefined
}

export interface ControlPlaneSource extends EnvoyConfigSource {
  isConnected(): boolean
  /** Streams that ended, and attempts to open one that failed. */
  streamsLost(): number
  close(): Promise<void>
}

const TIMES = {
  connectMs: 20_000,
  /**
   * Some control planes answer a refusal with the configuration that was refused, at once. This is
   * how long the same one waits for its next refusal.
   */
  refuseAgainMs: 5000,
}
/** How much of a reason is sent back; a log or a status of the control plane shows it. */
const PROBLEM_LENGTH_MAX = 2000
const VERSION_SHOWN_MAX = 64

/** Begins to follow. Readiness waits for the first configuration, not this function. */
export function followControlPlane(
  options: ControlPlaneOptions,
  deps: ControlPlaneDeps,
): ControlPlaneSource {
  return new FollowedControlPlane(options, deps)
}

class FollowedControlPlane implements ControlPlaneSource {
  readonly #options: ControlPlaneOptions
  readonly #log: Log
  readonly #random: () => number
  readonly #times: typeof TIMES
  readonly #config: ActiveConfig
  readonly #closing = new AbortController()
  readonly #following: Promise<void>
  #stream: AdsStream | undefined
  #version = ''
  #activeDigest: string | undefined
  #refusedDigest: string | undefined
  /** Why the last stream was lost; undefined after a good response of the next one. */
  #lostBecause: string | undefined
  #streamsLost = 0
  /** Streams in a row that brought nothing. */
  #failedInARow = 0

  constructor(options: ControlPlaneOptions, { log, random, times }: ControlPlaneDeps) {
    this.#options = options
    this.#log = log
    this.#random = random
    this.#times = { ...TIMES, ...times }
    this.#config = new ActiveConfig(log, { server: options.server })
    this.#following = this.follow()
  }

  current(): EnvoyConfig | undefined {
    return this.#config.current()
  }

  problem(): string | undefined {
    const waiting = this.current() === undefined ? this.missing() : this.#lostBecause
    return this.#config.problem() ?? waiting
  }

  loads(): number {
    return this.#config.loads()
  }

  failures(): number {
    return this.#config.failures()
  }

  onChange(listener: (config: EnvoyConfig) => void): void {
    this.#config.onChange(listener)
  }

  isConnected(): boolean {
    return this.#stream?.isConnected() ?? false
  }

  streamsLost(): number {
    return this.#streamsLost
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#stream?.close()
    await this.#following
  }

  private get isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  /** Why there is no configuration, if none was refused. */
  private missing(): string {
    const { server, node } = this.#options
    const lost = this.#lostBecause
    if (!this.isConnected()) return lost ?? `control plane ${server}: not connected yet`
    const before = lost === undefined ? '' : `; before, ${lost}`
    return `control plane ${server}: it has sent nothing to the node ${show(node.id)} yet${before}`
  }

  private async follow(): Promise<void> {
    while (!this.isClosed) {
      const beganMs = monotonicMs()
      const reason = await this.followOne()
      if (this.isClosed) return
      const { backoff, server } = this.#options
      // A stream that lasted was a good one, even if there was nothing to send.
      if (monotonicMs() - beganMs > backoff.mostMs) this.#failedInARow = 0
      const retryMs = retryAfterMs(backoff, this.#failedInARow++, this.#random())
      this.#streamsLost++
      this.#lostBecause = `control plane ${server}: ${reason}`
      const active = this.current() === undefined ? 'none is active' : 'the active one stays'
      const fields = { server, reason, retryMs }
      this.#log.warn(fields, `envoy configuration stream lost: ${active}`)
      await this.pause(retryMs)
    }
  }

  /** Follows one stream to its end; returns why it ended. */
  private async followOne(): Promise<string> {
    let stream: AdsStream | undefined
    try {
      stream = await openAdsStream({ ...this.#options, connectMs: this.#times.connectMs })
      this.#stream = stream
      if (this.isClosed) return 'closed'
      this.send(stream, { version: '', nonce: '', problem: undefined })
      for await (const message of stream.messages) await this.receive(stream, message)
      return show(await stream.reason(), PROBLEM_LENGTH_MAX)
    } catch (error) {
      return show(messageOf(error), PROBLEM_LENGTH_MAX)
    } finally {
      this.#stream = undefined
      stream?.close()
    }
  }

  private async receive(stream: AdsStream, message: Buffer): Promise<void> {
    const response = this.decode(message)
    const { resources, versionInfo, nonce } = response
    const digest = digestOf(response)
    const isActive = digest === this.#activeDigest
    if (digest === this.#refusedDigest) await this.pause(this.#times.refuseAgainMs)
    else if (isActive) this.#config.clearProblem()
    else await this.load(response, digest)
    if (this.isClosed) return
    this.#failedInARow = 0
    const isGood = digest === this.#activeDigest
    if (isGood) {
      this.#version = versionInfo
      this.#refusedDigest = undefined
      this.#lostBecause = undefined
    }
    const problem = isGood ? undefined : this.#config.problem()
    this.send(stream, { version: this.#version, nonce, problem })
    const fields = { server: this.#options.server, version: shownVersion(versionInfo) }
    const more = { resources: resources.length, accepted: isGood }
    this.#log.debug({ ...fields, ...more }, 'envoy configuration received')
  }

  /** Throws what ends the stream: without a nonce there is nothing to refuse. */
  private decode(message: Buffer): DiscoveryResponse {
    try {
      return decodeDiscoveryResponse(message)
    } catch (error) {
      const problem = `found no DiscoveryResponse: ${messageOf(error)}`
      this.#config.failOnce(problem)
      throw new Error(problem, { cause: error })
    }
  }

  private async load(response: DiscoveryResponse, digest: string): Promise<void> {
    const { versionInfo, resources } = response
    const { mergeDomains } = this.#options
    const parsed = await parseResponse(response, { mergeDomains })
    if (this.isClosed) return
    const counted = { version: shownVersion(versionInfo), resources: resources.length }
    if (this.#config.accept(parsed, counted)) this.#activeDigest = digest
    else this.#refusedDigest = digest
  }

  private send(
    stream: AdsStream,
    {
      version,
      nonce,
      problem,
    }: { readonly version: string; readonly nonce: string; readonly problem: string | undefined },
  ): void {
    stream.send(
      encodeDiscoveryRequest({
        versionInfo: version,
        node: this.#options.node,
        typeUrl: CONFIG_TYPE_URL,
        responseNonce: nonce,
        problem: problem?.slice(0, PROBLEM_LENGTH_MAX),
      }),
    )
  }

  /** Ends early when this source is closed. */
  private async pause(ms: number): Promise<void> {
    const { signal } = this.#closing
    await sleep(ms, undefined, { signal, ref: false }).catch(() => {})
  }
}

/** Half of the pause is random, so that a fleet does not come back at once. */
export function retryAfterMs({ firstMs, mostMs }: Backoff, failures: number, random: number) {
  const most = Math.min(mostMs, firstMs * 2 ** Math.min(failures, 30))
  return Math.round(most * (0.5 + random / 2))
}

/** Of the content alone: a control plane that restarts may begin its versions again. */
function digestOf({ typeUrl, resources }: DiscoveryResponse): string {
  const hash = createHash('sha256').update(`${typeUrl.length} ${typeUrl}`)
  for (const resource of resources) {
    hash.update(` ${resource.typeUrl.length} ${resource.value.length} ${resource.typeUrl} `)
    hash.update(resource.value)
  }
  return hash.digest('hex')
}

function shownVersion(versionInfo: string): string {
  return show(versionInfo, VERSION_SHOWN_MAX)
}
