/**
 * Three regions on one machine: a Redis and a server in each, and between every two regions a
 * network with the delay of a real one, which can be cut.
 */
import { randomBytes } from 'node:crypto'
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { importTypeScript } from '../../tools/import-typescript.mjs'
import { startRedis } from '../../tools/redis/server.mjs'
import { startSluice } from '../sluice-process.mjs'

export const REGIONS = ['eu-west', 'us-east', 'ap-south']
/** One way, in milliseconds. */
const NEAR_MS = 40
const FAR_MS = 75
const RULES = new URL('./rules.yaml', import.meta.url)

const othersOf = (region) => REGIONS.filter((other) => other !== region)
const delayBetween = (a, b) => (a === 'ap-south' || b === 'ap-south' ? FAR_MS : NEAR_MS)

/**
 * What it starts is stopped by `closers`, last first; `onEnd` is called when a server ends.
 * @param {{ folder: string, token: string, closers: (() => unknown)[], onEnd: () => void }} deps
 */
export async function startWorld({ folder, token, closers, onEnd }) {
  const { startFaultProxy } = await importTypeScript(
    new URL('../../tools/redis/fault-proxy.ts', import.meta.url),
  )
  const redis = {}
  for (const region of REGIONS) {
    redis[region] = await startRedis()
    closers.push(() => redis[region].stop())
  }
  const links = []
  for (const from of REGIONS) {
    for (const to of othersOf(from)) {
      const proxy = await startFaultProxy(redis[to].port)
      closers.push(() => proxy.stop())
      links.push({ from, to, delayMs: delayBetween(from, to), proxy, isCut: false })
    }
  }
  for (const { proxy, delayMs } of links) proxy.delay(delayMs)
  const keySecret = randomBytes(16).toString('hex')
  const starting = REGIONS.map((region) => {
    const others = links.filter(({ from }) => from === region)
    const server = startRegion({ region, folder, token, keySecret, redis, others, onEnd })
    closers.push(server.stop)
    return server.listening
  })
  const addresses = await Promise.all(starting)
  return new World(links, Object.fromEntries(REGIONS.map((name, i) => [name, addresses[i]])))
}

function startRegion({ region, folder, token, keySecret, redis, others, onEnd }) {
  const place = join(folder, region)
  mkdirSync(place)
  cpSync(RULES, join(place, 'rules.yaml'))
  const config = {
    region,
    // A demo shows regions, and not what a busy machine does to a deadline of 50 ms.
    redis: { url: redis[region].url, deadline: '1s' },
    regions: Object.fromEntries(others.map(({ to, proxy }) => [to, { redis: proxy.url }])),
    rules: 'rules.yaml',
    log: { level: 'error' },
    shutdown: { delay: '0ms', within: '5s' },
  }
  const env = {
    SLUICE_ADMIN_TOKEN: token,
    SLUICE_KEY_SECRET: keySecret,
    SLUICE_ADMIN_LISTEN: '127.0.0.1:0',
    SLUICE_GATEWAY_LISTEN: '127.0.0.1:0',
    SLUICE_API_LISTEN: '127.0.0.1:0',
    SLUICE_GRPC_LISTEN: '127.0.0.1:0',
    SLUICE_DATA_DIR: join(place, 'data'),
  }
  return startSluice({ folder: place, config, env, onEnd })
}

class World {
  /** The addresses of the server of each region. */
  servers
  #links
  #cut = new Set()

  constructor(links, servers) {
    this.#links = links
    this.servers = servers
  }

  isCut(region) {
    return this.#cut.has(region)
  }

  /** Cuts a region off the others, in both directions, or ends that. */
  async setCut(region, isCut) {
    if (isCut) this.#cut.add(region)
    else this.#cut.delete(region)
    for (const link of this.#links) {
      const shouldBeCut = this.#cut.has(link.from) || this.#cut.has(link.to)
      if (shouldBeCut === link.isCut) continue
      link.isCut = shouldBeCut
      if (shouldBeCut) link.proxy.blackhole()
      else {
        await link.proxy.heal()
        link.proxy.delay(link.delayMs)
      }
    }
  }
}
