import { startRedis, type RedisOptions, type RedisServer } from './server.mjs'
import { waitFor } from './wait-for.js'

/** Starts all in parallel; if one fails, all are stopped. */
export async function startAll(
  options: readonly RedisOptions[],
  startOne: (one: RedisOptions) => Promise<RedisServer> = startRedis,
): Promise<readonly RedisServer[]> {
  const starts = await Promise.allSettled(options.map((one) => startOne(one)))
  const servers = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []))
  const failed = starts.find((start) => start.status === 'rejected')
  if (failed === undefined) return servers
  await stopAll(servers)
  throw failed.reason
}

export async function stopAll(servers: readonly RedisServer[]): Promise<void> {
  await Promise.all(servers.map((server) => server.stop()))
}

/** Waits until replicas have received all data of their primary. */
export async function waitForData(replicas: readonly RedisServer[]): Promise<void> {
  await waitFor('Replicas that have their data', async () => {
    const infos = await Promise.all(replicas.map((replica) => replica.info('replication')))
    return infos.every((info) => info['master_link_status'] === 'up')
  })
}
