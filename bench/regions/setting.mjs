/**
 * Three regions on one machine: a Redis and two nodes in each, and between every two regions a
 * network of which the delay can be set and which can be cut.
 */
import { fileURLToPath } from 'node:url'
import { importTypeScript } from '../../tools/import-typescript.mjs'
import { startRedis } from '../../tools/redis/server.mjs'
import { startNodeProcess } from '../node-process.mjs'

export const REGIONS = ['eu', 'us', 'ap']
export const NODES_IN_REGION = 2
const NODE = fileURLToPath(new URL('./node.mjs', import.meta.url))
const { startFaultProxy } = await importTypeScript(
  new URL('../../tools/redis/fault-proxy.ts', import.meta.url),
)

export const othersOf = (region) => REGIONS.filter((other) => other !== region)

export async function startWorld() {
  const servers = await Promise.all(REGIONS.map(() => startRedis()))
  const redis = Object.fromEntries(REGIONS.map((name, i) => [name, servers[i]]))
  return new World(redis)
}

class World {
  redis
  #delayMs = 0
  #links = new Map()
  #nodes = []

  constructor(redis) {
    this.redis = redis
  }

  /** The network from one region to the Redis of another. */
  async link(from, to, kind = '') {
    const name = `${from} ${to} ${kind}`
    const known = this.#links.get(name)
    if (known !== undefined) return known
    const proxy = await startFaultProxy(this.redis[to].port)
    proxy.delay(this.#delayMs)
    this.#links.set(name, proxy)
    return proxy
  }

  /** The addresses of the others, through the network or past it. */
  async links(region, kind) {
    const entries = othersOf(region).map(async (other) => {
      const { url } = kind === 'direct' ? this.redis[other] : await this.link(region, other, kind)
      return [other, url]
    })
    return Object.fromEntries(await Promise.all(entries))
  }

  /** One way, of every link. */
  delay(ms) {
    this.#delayMs = ms
    for (const link of this.#links.values()) link.delay(ms)
  }

  /** The links of a region, in both directions. */
  async linksOf(region) {
    const others = othersOf(region)
    const both = others.flatMap((other) => [this.link(region, other), this.link(other, region)])
    return Promise.all(both)
  }

  async cutOff(region) {
    for (const link of await this.linksOf(region)) link.blackhole()
  }

  async heal(region) {
    for (const link of await this.linksOf(region)) {
      await link.heal()
      link.delay(this.#delayMs)
    }
  }

  /** Two nodes in each region, which know each other. */
  async startFleet(subject, cells) {
    const places = REGIONS.flatMap((region) =>
      Array.from({ length: NODES_IN_REGION }, () => region),
    )
    const nodes = await Promise.all(
      places.map(async (region) => {
        const links = await this.links(region)
        const on = { region, url: this.redis[region].url, links, cells }
        return { region, ...(await this.startNode(subject, { on })) }
      }),
    )
    await Promise.all(nodes.map((node) => node.order({ kind: 'meet' })))
    return new Fleet(nodes)
  }

  async startNode(subject, settings) {
    const node = await startNodeProcess(NODE, { subject, settings })
    this.#nodes.push(node)
    return node
  }

  async stop() {
    await Promise.all(this.#nodes.map((node) => node.stop()))
    await Promise.all([...this.#links.values()].map((link) => link.stop()))
    await Promise.all(Object.values(this.redis).map((server) => server.stop()))
  }
}

class Fleet {
  #nodes

  constructor(nodes) {
    this.#nodes = nodes
  }

  /** All nodes do the same; their answers, each with its region. */
  orderAll(order) {
    return Promise.all(
      this.#nodes.map(async (node) => {
        const answer = await node.order(order)
        return Array.isArray(answer)
          ? { region: node.region, list: answer }
          : { region: node.region, ...answer }
      }),
    )
  }

  /** The first node of each region. */
  orderOfEach(order) {
    return Promise.all(
      REGIONS.map((region) => this.#nodes.find((node) => node.region === region).order(order)),
    )
  }

  /** Calls at a constant rate in all, evenly on all nodes. */
  play({ perSecond, ...order }) {
    return this.orderAll({ kind: 'play', ...order, perSecond: perSecond / this.#nodes.length })
  }

  async stop() {
    await Promise.all(this.#nodes.map((node) => node.stop()))
  }
}
