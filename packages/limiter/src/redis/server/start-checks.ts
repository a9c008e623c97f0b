/**
 * Checks before the first decision that a Redis can hold counters, because most causes of wrong
 * limits can be detected at the start.
 */
import { SluiceError, show } from '@sluice/core'
import { type RunCommand, runScript, luaScript, textOf } from '../connection/run-command.js'
import { RedisReplyError, type RedisDriver } from '../connection/driver.js'
import { codeOf } from '../pipeline/error-actions.js'
import type { Layout } from '../redis-options.js'
import { fetchInfo, type StoreInfo } from './store-info.js'

const MAJOR_MIN = 6
const POLICY = 'noeviction'
/** The number of counters in a hash of the packed layout when there are 40 million counters. */
const PROBE_FIELDS = 300
const PROBE_FIELD_BYTES = 8
const PROBE_VALUE_BYTES = 20
const PACKED_ENCODINGS: readonly (string | undefined)[] = ['listpack', 'ziplist']

const PROBE = luaScript('probe')

export interface StartCheckOptions {
  /** `host:port`, for messages. */
  readonly address: string
  readonly topology: RedisDriver['topology']
  readonly allowEviction: boolean
  readonly layout: Layout
  /**
   * Written and deleted in the packed layout; on a Cluster in a slot of this node. Undefined if the
   * node has no slot, so there is nothing to check.
   */
  readonly probeKey: string | undefined
  /** Called if a standalone server is a replica: it may be promoted or replaced. */
  readonly onReplica?: (() => void) | undefined
  /** Whether a rule must survive a restart of Redis. @default false */
  readonly durable?: boolean | undefined
}

export interface CheckedStore extends StoreInfo {
  /** Problems that do not prevent a start. */
  readonly warnings: readonly string[]
}

/**
 * Checks one primary. Rejects with STORE_UNFIT if limits would not hold on it, with STORE_REFUSED
 * if it refuses writes or commands of this node, and with other errors if that is unknown.
 */
export async function checkStore(
  run: RunCommand,
  options: StartCheckOptions,
): Promise<CheckedStore> {
  const info = await readInfo(run, options)
  if (info.isReplica && options.topology !== 'standalone') {
    const found = 'is a replica now; looking for its primary'
    throw new SluiceError('STORE_FAILED', `Redis at ${options.address} ${found}`)
  }
  if (info.isReplica) {
    options.onReplica?.()
    throw refusal(options, 'found a replica, which cannot be written to; accepted: the primary')
  }
  const problem = findProblem(info, options)
  if (problem !== undefined) throw unfit(options, problem)
  const warnings = findWarnings(info, options)
  if (await takesSnapshots(run, info)) {
    warnings.push(
      'snapshots (save) are on: each forks the process and stalls every decision meanwhile; ' +
        "accepted: save '' on the primary, snapshots on a replica",
    )
  }
  const { layout, probeKey } = options
  if (layout === 'packed' && probeKey !== undefined) await checkEncoding(run, probeKey, options)
  const name = `Redis at ${options.address}`
  return { ...info, warnings: warnings.map((warning) => `${name}: ${warning}`) }
}

async function readInfo(run: RunCommand, options: StartCheckOptions): Promise<StoreInfo> {
  try {
    return await fetchInfo(run)
  } catch (error) {
    if (!(error instanceof RedisReplyError) || codeOf(error.message) !== 'NOPERM') throw error
    const found = 'the user may not run INFO; accepted: a user with the rights in STORE_ACL'
    throw refusal(options, found, error)
  }
}

function findProblem(info: StoreInfo, options: StartCheckOptions): string | undefined {
  const { topology, address, allowEviction } = options
  const { version, evictionPolicy } = info
  if (!(info.major >= MAJOR_MIN)) return `found ${show(version)}; accepted: ${MAJOR_MIN}.0 or newer`
  if (info.isCluster && topology !== 'cluster') {
    return `found a node of a Cluster behind a URL of another kind; accepted: redis+cluster://${address}`
  }
  if (!info.isCluster && topology === 'cluster') {
    return `found no node of a Cluster behind redis+cluster://; accepted: redis://${address}`
  }
  if (evictionPolicy !== undefined && evictionPolicy !== POLICY && !allowEviction) {
    return (
      `found maxmemory-policy ${show(evictionPolicy)}; accepted: ${POLICY}, because an evicted ` +
      'counter hands its whole budget out again (allowEviction: true overrides this)'
    )
  }
  return undefined
}

function findWarnings(info: StoreInfo, options: StartCheckOptions): string[] {
  const warnings: string[] = []
  const { evictionPolicy } = info
  if (evictionPolicy === undefined) {
    warnings.push(`does not report its maxmemory-policy; accepted: ${POLICY}`)
  } else if (evictionPolicy !== POLICY) {
    warnings.push(
      `maxmemory-policy is ${show(evictionPolicy)}: an evicted counter hands its whole budget ` +
        `out again; accepted: ${POLICY}`,
    )
  }
  if (info.maxBytes === 0) {
    warnings.push(
      'maxmemory is 0: it may grow until the system kills it; accepted: a bound below the memory ' +
        'of the machine',
    )
  }
  if (options.durable === true && !info.aof) {
    warnings.push(
      'a rule is durable and appendonly is off: a restart forgets its counters; ' +
        'accepted: appendonly yes',
    )
  }
  return warnings
}

/**
 * Whether Redis takes snapshots. Only CONFIG shows that, and few users may run it. Otherwise a
 * snapshot that was taken shows it, unless there are replicas, for which Redis takes one as well.
 */
async function takesSnapshots(run: RunCommand, info: StoreInfo): Promise<boolean> {
  try {
    const reply = await run(['CONFIG', 'GET', 'save'])
    const points = Array.isArray(reply) ? textOf(reply[1] ?? null) : undefined
    if (points !== undefined) return points !== ''
  } catch (error) {
    if (!(error instanceof RedisReplyError)) throw error
  }
  return info.hasSnapshot && info.replicas === 0
}

async function checkEncoding(
  run: RunCommand,
  key: string,
  options: StartCheckOptions,
): Promise<void> {
  const sizes = [PROBE_FIELDS, PROBE_FIELD_BYTES, PROBE_VALUE_BYTES]
  const encoding = textOf(await runScript(run, PROBE, [key], sizes))
  if (PACKED_ENCODINGS.includes(encoding)) return
  throw unfit(
    options,
    `keeps a hash of ${PROBE_FIELDS} counters as ${show(encoding)}, which takes several times the ` +
      `memory; accepted: listpack, by hash-max-listpack-entries of at least ${PROBE_FIELDS} ` +
      `(default 512) and hash-max-listpack-value of at least ${PROBE_VALUE_BYTES} (default 64), ` +
      'or the layout plain',
  )
}

function refusal(options: StartCheckOptions, problem: string, cause?: unknown): SluiceError {
  const settings = cause === undefined ? undefined : { cause }
  return new SluiceError('STORE_REFUSED', `Redis at ${options.address}: ${problem}`, settings)
}

function unfit(options: StartCheckOptions, problem: string): SluiceError {
  return new SluiceError('STORE_UNFIT', `Redis at ${options.address}: ${problem}`)
}
