/**
 * The secret of the key hash, which all nodes of a prefix share.
 *
 * If a node is configured with none, it is stored in Redis, where the first node writes it. A
 * fingerprint is stored beside it, also if every node was configured with the secret: nodes with
 * different secrets would use separate counters, and every limit would silently exist twice. Both
 * keys live 400 days and are renewed while nodes run.
 */
import { createHash, randomBytes } from 'node:crypto'
import { SluiceError, show } from '@sluice/core'
import { type RunCommand, textOf } from '../connection/run-command.js'
import { HOME_TAG, storeKeys } from '../protocol/redis-keys.js'
import { slotOf } from '../request/partitions.js'
import { PeriodicTask, type Scheduler } from '../../periodic.js'

const SECRET_BYTES = 16
const FINGERPRINT_BYTES = 8
const LIFE_S = 400 * 86_400
const RENEW_EVERY_MS = 86_400_000
/** How many times a key may vanish between write and read before that is an error. */
const TRIES_MAX = 3
/** Running nodes notice within one heartbeat, half a second, that their secret is gone. */
const OTHERS_MS = 1500
const OTHERS_POLL_MS = 25
const PURPOSE = 'sluice: fingerprint of the key secret\n'

/** The slot of the keys of every prefix that are no counters. */
export const HOME_SLOT = slotOf(HOME_TAG)

/** 16 hex digits that distinguish two secrets and reveal nothing of either. */
export function fingerprintOf(secret: Uint8Array): string {
  const hash = createHash('sha256').update(PURPOSE).update(secret).digest()
  return hash.toString('hex', 0, FINGERPRINT_BYTES)
}

export interface AgreeOptions {
  readonly prefix: string
  /** 16 bytes; undefined if the secret is kept in Redis. */
  readonly configured?: Uint8Array | undefined
  /** The secret that Redis kept when this node last read it, which is restored if Redis lost it. */
  readonly lastKnown?: Uint8Array | undefined
  /**
   * Makes the nodes that hold the secret write it again, and resolves to how many received the
   * request. Rejects if that is not known. @default there are none
   */
  readonly requestSecret?: (() => Promise<number>) | undefined
}

/**
 * Returns the secret of a prefix, 16 bytes. Rejects with KEY_SECRET_DIFFERS if its counters were
 * made with another one.
 */
export async function agreeOnSecret(run: RunCommand, options: AgreeOptions): Promise<Uint8Array> {
  const { prefix, configured } = options
  const secret = configured ?? (await findSecret(run, options))
  await renewSecret(run, { prefix, secret, isConfigured: configured !== undefined })
  return secret
}

/**
 * Reads the stored secret, and writes it if there is none. It is always written before its
 * fingerprint and read after it: a fingerprint without a secret belongs to configured nodes.
 */
async function findSecret(run: RunCommand, options: AgreeOptions): Promise<Uint8Array> {
  const { prefix, lastKnown } = options
  const keys = storeKeys(prefix)
  const fingerprint = textOf(await run(['GET', keys.fingerprint]))
  const kept = textOf(await run(['GET', keys.secret]))
  if (kept !== undefined) return parseSecret(kept, keys.secret)
  const isLast = lastKnown !== undefined && fingerprint === fingerprintOf(lastKnown)
  if (fingerprint !== undefined && !isLast) throw secretMissing(prefix, fingerprint)
  // Also with a secret kept on this node: it may be older than that of the running nodes.
  if (fingerprint === undefined) await waitForOthers(run, options)
  const offered = Buffer.from(lastKnown ?? randomBytes(SECRET_BYTES))
  return parseSecret(await claim(run, keys.secret, offered.toString('hex')), keys.secret)
}

/**
 * Gives running nodes the time to restore their secret. A Redis that was just flushed is like a new
 * one: a starting node would draw another secret and use separate counters.
 */
async function waitForOthers(run: RunCommand, options: AgreeOptions): Promise<void> {
  const { prefix, requestSecret } = options
  if (requestSecret === undefined) return
  // If it is not known whether there are others, there may be.
  const receivers = await requestSecret().catch(() => 1)
  if (receivers === 0) return
  const { secret, fingerprint } = storeKeys(prefix)
  for (let waitedMs = 0; waitedMs < OTHERS_MS; waitedMs += OTHERS_POLL_MS) {
    const [found, foundPrint] = [await run(['GET', secret]), await run(['GET', fingerprint])]
    if (found !== null) return
    // Configured nodes restore only the fingerprint, which the next attempt finds.
    if (foundPrint !== null) {
      throw new SluiceError('STORE_FAILED', `${secret} vanished, but its fingerprint is back`)
    }
    await pause(OTHERS_POLL_MS)
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref()
  })
}

function parseSecret(text: string, key: string): Uint8Array {
  if (/^[0-9a-f]{32}$/.test(text)) return new Uint8Array(Buffer.from(text, 'hex'))
  throw new SluiceError(
    'STORE_UNFIT',
    `${key} in Redis must be ${2 * SECRET_BYTES} hex digits, and has ${text.length} characters ` +
      'of something else. Use a Redis or a prefix of its own for Sluice, or delete the key.',
  )
}

/** Writes a key unless it exists, and returns its value. */
async function claim(run: RunCommand, key: string, value: string): Promise<string> {
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    await run(['SET', key, value, 'NX', 'EX', LIFE_S])
    const found = textOf(await run(['GET', key]))
    if (found !== undefined) return found
  }
  throw new SluiceError('STORE_FAILED', `${key} vanished ${TRIES_MAX} times after it was written`)
}

export interface NodeSecret {
  readonly prefix: string
  readonly secret: Uint8Array
  /** Whether it was configured, and so must not be written to Redis. */
  readonly isConfigured: boolean
}

/**
 * Renews both keys and restores those that were flushed. Rejects with KEY_SECRET_DIFFERS if another
 * secret has replaced it.
 */
export async function renewSecret(run: RunCommand, nodeSecret: NodeSecret): Promise<void> {
  const keys = storeKeys(nodeSecret.prefix)
  const ours = fingerprintOf(nodeSecret.secret)
  if (!nodeSecret.isConfigured) {
    const kept = await claim(run, keys.secret, Buffer.from(nodeSecret.secret).toString('hex'))
    const theirs = fingerprintOf(parseSecret(kept, keys.secret))
    if (theirs !== ours) throw secretDiffers(nodeSecret.prefix, ours, theirs)
  }
  const theirs = await claim(run, keys.fingerprint, ours)
  if (theirs !== ours) throw secretDiffers(nodeSecret.prefix, ours, theirs)
  // The secret last, because it must not expire before its fingerprint.
  await run(['EXPIRE', keys.fingerprint, LIFE_S])
  if (!nodeSecret.isConfigured) await run(['EXPIRE', keys.secret, LIFE_S])
}

/**
 * Checks that the nodes of another region have this secret. Rejects with STORE_REFUSED if theirs is
 * another one, or is not known because no node of that region has started yet.
 */
export async function requireSameSecret(
  run: RunCommand,
  { prefix, secret }: { readonly prefix: string; readonly secret: Uint8Array },
): Promise<void> {
  const ours = fingerprintOf(secret)
  const theirs = textOf(await run(['GET', storeKeys(prefix).fingerprint]))
  if (theirs === ours) return
  const problem =
    theirs === undefined
      ? 'no node of that region has started on it yet'
      : `its nodes have a key secret with the fingerprint ${show(theirs)}, this node has ${ours}: ` +
        'give all regions the same SLUICE_KEY_SECRET'
  throw new SluiceError('STORE_REFUSED', `Prefix ${show(prefix)} of another region: ${problem}`)
}

function secretDiffers(prefix: string, ours: string, theirs: string): SluiceError {
  const found =
    `the key secret of this node has the fingerprint ${ours}, ` +
    `that of the counters in Redis has ${show(theirs)}`
  return secretMismatch(prefix, found)
}

function secretMissing(prefix: string, theirs: string): SluiceError {
  const found =
    'this node was given no key secret and Redis keeps none, ' +
    `but the counters in Redis have one with the fingerprint ${show(theirs)}`
  return secretMismatch(prefix, found)
}

function secretMismatch(prefix: string, found: string): SluiceError {
  const { secret, fingerprint } = storeKeys(prefix)
  return new SluiceError(
    'KEY_SECRET_DIFFERS',
    `Prefix ${show(prefix)}: ${found}; such nodes would use separate counters. ` +
      'Give all nodes the same SLUICE_KEY_SECRET, or this one its own prefix. ' +
      `To rotate the secret stop all nodes and delete ${show(fingerprint)} and ${show(secret)}, ` +
      'and redis-key-secret in the data directory of each node: all counters then start empty.',
  )
}

export interface SecretKeeperOptions extends NodeSecret {
  readonly run: RunCommand
  readonly scheduler: Scheduler
  /** Called once per change: another secret was found, or ours is back. */
  readonly onProblem: (text: string) => void
  /** Called after each check with whether Redis has the secret of other nodes. */
  readonly onDiffers?: ((differs: boolean) => void) | undefined
}

/** Renews the secret once a day, and at once when a heartbeat finds it missing. */
export class SecretKeeper {
  readonly #options: SecretKeeperOptions
  readonly #fingerprint: string
  readonly #renewal: PeriodicTask
  #problem = ''
  #isRenewing = false

  constructor(options: SecretKeeperOptions) {
    this.#options = options
    this.#fingerprint = fingerprintOf(options.secret)
    this.#renewal = new PeriodicTask(RENEW_EVERY_MS, () => this.renew(), options.scheduler)
  }

  start(): void {
    this.#renewal.start('later')
  }

  stop(): void {
    this.#renewal.stop()
  }

  /** Restores the secret, because another node has found that it is missing. */
  restore(): void {
    void this.renew()
  }

  /** Checks the fingerprint that is in Redis now; undefined if there is none. */
  onFingerprint(fingerprint: string | undefined): void {
    if (fingerprint === undefined) {
      void this.renew()
    } else if (fingerprint === this.#fingerprint) {
      this.recovered()
    } else {
      this.report(secretDiffers(this.#options.prefix, this.#fingerprint, fingerprint))
    }
  }

  /** Never rejects. A store that does not answer is reported by more frequent users of it. */
  private async renew(): Promise<void> {
    if (this.#isRenewing) return
    this.#isRenewing = true
    try {
      await renewSecret(this.#options.run, this.#options)
      this.recovered()
    } catch (error) {
      const isOurs = error instanceof SluiceError && error.code !== 'STORE_FAILED'
      if (isOurs) this.report(error)
    } finally {
      this.#isRenewing = false
    }
  }

  private recovered(): void {
    if (this.#problem === '') return
    this.#problem = ''
    const { prefix, onProblem, onDiffers } = this.#options
    onDiffers?.(false)
    onProblem(`Prefix ${show(prefix)}: the key secret of this node and of Redis agree again`)
  }

  private report({ code, message }: SluiceError): void {
    if (message === this.#problem) return
    this.#problem = message
    if (code === 'KEY_SECRET_DIFFERS') this.#options.onDiffers?.(true)
    this.#options.onProblem(message)
  }
}
