/** A real Redis Sentinel set: a primary with replicas, and sentinels that replace it. */
import { startRedis, type RedisServer } from './server.mjs'
import { startAll, stopAll, waitForData } from './start-all.js'
import { waitFor } from './wait-for.js'

const NAME = 'sluice'

export interface SentinelOptions {
  readonly replicas?: number
  readonly sentinels?: number
  /**
   * How long the primary may be silent before a sentinel considers it down. It applies to replicas
   * too, which then cannot take over, so it must be longer than the stalls of a busy machine.
   */
  readonly downAfterMs?: number
  readonly failoverTimeoutMs?: number
  /** More arguments for the primary and the replicas. */
  readonly config?: readonly string[]
  /** The password of the sentinels; not part of `url`. */
  readonly sentinelPassword?: string
  /** The password of the primary; not part of `url`. */
  readonly password?: string
}

export interface RedisSentinelSet {
  /** `redis+sentinel://` with all sentinels, and the name of the set. */
  readonly url: string
  readonly name: string
  /** The primary first, as at the start. */
  readonly nodes: readonly RedisServer[]
  readonly sentinels: readonly RedisServer[]
  /** The primary according to most sentinels. */
  primary(): Promise<RedisServer>
  /** Kills the primary and returns it; `start` restarts it, after a while as a replica. */
  killPrimary(): Promise<RedisServer>
  /** Resolves to the new primary once most sentinels name it and it accepts writes. */
  waitForNewPrimary(old: RedisServer): Promise<RedisServer>
  /** Makes another node take over while the primary lives; resolves as above. */
  failOver(): Promise<RedisServer>
  stop(): Promise<void>
}

/** Resolves once every sentinel knows the others, and the replicas with their data. */
export async function startSentinel(options: SentinelOptions = {}): Promise<RedisSentinelSet> {
  const { replicas = 1, sentinels: sentinelCount = 3, config = [] } = options
  // Redis waits 5 s for more replicas before it sends its data; there are no others.
  const ready = ['--repl-diskless-sync-delay', '0', ...config]
  const secret = options.password === undefined ? {} : { password: options.password }
  if (options.password !== undefined) ready.push('--masterauth', options.password)
  const primary = await startRedis({ config: ready, ...secret })
  const started = [primary]
  try {
    const replicaOf = ['--replicaof', primary.host, String(primary.port)]
    const following = { config: [...ready, ...replicaOf], ...secret }
    const followers = await startAll(Array.from({ length: replicas }, () => following))
    started.push(...followers)
    await waitForData(followers)
    const watching = Array.from({ length: sentinelCount }, (_, index) => ({
      file: fileOf(primary, index, options),
      config: ['--sentinel'],
      ...(options.sentinelPassword !== undefined && { password: options.sentinelPassword }),
    }))
    const sentinels = await startAll(watching)
    started.push(...sentinels)
    await meet(sentinels, replicas)
    return setOf([primary, ...followers], sentinels)
  } catch (error) {
    await stopAll(started)
    throw error
  }
}

/** Sentinels that notice a failure at the same moment all vote for themselves, and wait long. */
const APART_MS = 150

function fileOf(primary: RedisServer, index: number, options: SentinelOptions): string {
  const { sentinels = 3, downAfterMs = 1500, failoverTimeoutMs = 2000, password } = options
  const quorum = majorityOf(sentinels)
  return [
    `sentinel monitor ${NAME} ${primary.host} ${primary.port} ${quorum}`,
    `sentinel down-after-milliseconds ${NAME} ${downAfterMs + index * APART_MS}`,
    `sentinel failover-timeout ${NAME} ${failoverTimeoutMs}`,
    ...(password === undefined ? [] : [`sentinel auth-pass ${NAME} ${password}`]),
    '',
  ].join('\n')
}

const majorityOf = (count: number) => Math.floor(count / 2) + 1

/**
 * Sentinels find each other through the primary, every 2 s; with shorter periods at once. They
 * also pause for 30 s after a stall of 2 s, which a busy machine may have.
 */
async function meet(sentinels: readonly RedisServer[], replicas: number): Promise<void> {
  const periods = ['publish-period', '100', 'ask-period', '200', 'info-period', '500']
  const patience = ['tilt-trigger', '20000', 'tilt-period', '1000']
  await Promise.all(
    sentinels.map((sentinel) => sentinel.call('SENTINEL', 'DEBUG', ...periods, ...patience)),
  )
  await waitFor('Sentinels that know each other', async () => {
    const views = await Promise.all(sentinels.map(viewOf))
    return views.every(
      (view) =>
        view.get('num-other-sentinels') === String(sentinels.length - 1) &&
        view.get('num-slaves') === String(replicas),
    )
  })
}

async function viewOf(sentinel: RedisServer): Promise<ReadonlyMap<string, string>> {
  return fieldsOf(await sentinel.call('SENTINEL', 'MASTER', NAME))
}

/** Whether a replica can take over: a node that was just restarted is no replica at first. */
async function hasReplica(sentinel: RedisServer): Promise<boolean> {
  const reply = await sentinel.call('SENTINEL', 'REPLICAS', NAME)
  const replicas = Array.isArray(reply) ? reply.map(fieldsOf) : []
  return replicas.some(
    (replica) => replica.get('flags') === 'slave' && replica.get('master-link-status') === 'ok',
  )
}

function fieldsOf(reply: unknown): ReadonlyMap<string, string> {
  const words = Array.isArray(reply) ? reply.map(String) : []
  return new Map(words.flatMap((word, at) => (at % 2 === 0 ? [[word, words[at + 1] ?? '']] : [])))
}

function setOf(nodes: readonly RedisServer[], sentinels: readonly RedisServer[]): RedisSentinelSet {
  async function namedByMost(): Promise<RedisServer | undefined> {
    const running = sentinels.filter((sentinel) => sentinel.isRunning && !sentinel.isPaused)
    const answers = await Promise.all(
      running.map((sentinel) => sentinel.cli('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME)),
    )
    return nodes.find(({ host, port }) => {
      const votes = answers.filter((answer) => answer === `${host}\n${port}`).length
      return votes >= majorityOf(sentinels.length)
    })
  }

  async function primary(): Promise<RedisServer> {
    const node = await namedByMost()
    if (node === undefined) throw new Error('The sentinels agree on no primary')
    return node
  }

  async function newPrimary(old: RedisServer): Promise<RedisServer | undefined> {
    const node = await namedByMost()
    if (node === undefined || node === old || !node.isRunning) return undefined
    return (await node.info('replication'))['role'] === 'master' ? node : undefined
  }

  return {
    url: `redis+sentinel://${sentinels.map(({ address }) => address).join(',')}/${NAME}`,
    name: NAME,
    nodes,
    sentinels,
    primary,
    async killPrimary() {
      const node = await primary()
      await node.kill()
      return node
    },
    waitForNewPrimary: (old) => waitFor('A new primary', () => newPrimary(old)),
    async failOver() {
      const old = await primary()
      // The others may have been restarted, without their short periods.
      const sentinel = sentinels.at(-1)
      if (sentinel === undefined) throw new Error('No sentinels')
      // A sentinel gives up if the replica takes too long, and retries only on request. Or the old
      // primary takes over again, because a busy machine delays the new one.
      return waitFor('A failover', async () => {
        const node = await newPrimary(old)
        if (node !== undefined) return node
        const view = await viewOf(sentinel)
        const isAtRest = view.get('port') === String(old.port) && view.get('flags') === 'master'
        if (isAtRest && (await hasReplica(sentinel))) {
          await sentinel.call('SENTINEL', 'FAILOVER', NAME)
        }
        return undefined
      })
    },
    stop: () => stopAll([...sentinels, ...nodes]),
  }
}
