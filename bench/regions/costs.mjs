/** What regions cost a call: its latency, and the work of a node and of another region's Redis. */
import { setTimeout as sleep } from 'node:timers/promises'
import { median } from '../report.mjs'
import { PEER, SLUICE } from './subjects.mjs'

const DAY_MS = 86_400_000
const CELLS = [{ id: 'free', algorithm: 'fixed-window', max: 1_000_000_000, windowMs: DAY_MS }]
const CELL = 'free'
const PER_SECOND = 300
const WAITING = 64
const REST_MS = 1000
/** How many calls a caller has made in its window, when the cost of one more is measured. */
const GROWN = [100, 500, 1000]
const GROWN_CALLS = 100
export const SUBJECTS = [SLUICE, PEER]
export const SETTINGS = ['none', 'on', 'black-holed']

export async function measureCosts(world, { delays, isQuick, log }) {
  const rounds = isQuick ? 3 : 15
  const seconds = isQuick ? 1 : 3
  const samples = isQuick ? 40 : 300
  const calls = isQuick ? 10_000 : 40_000
  const nodes = new Map()
  for (const subject of SUBJECTS) nodes.set(subject, await openNode(world, subject))
  const found = new Map(SUBJECTS.map((subject) => [subject, { seen: new Map() }]))
  for (const delayMs of delays) {
    world.delay(delayMs)
    for (const subject of SUBJECTS) {
      log(`${subject}: seen elsewhere at ${delayMs} ms`)
      const order = { setting: 'on', other: 'there', cell: CELL, name: `seen-${delayMs}`, samples }
      const { waits } = await nodes.get(subject).order({ kind: 'seen', ...order })
      found.get(subject).seen.set(delayMs, percentile(waits, 0.99))
    }
  }
  world.delay(40)
  const options = { rounds, seconds, calls, log }
  await measureLatency(world, nodes, { found, ...options })
  await measureUnits(world, nodes, { found, ...options })
  for (const subject of SUBJECTS) {
    found.get(subject).grown = await measureGrowth(world, nodes.get(subject), { subject, log })
    await nodes.get(subject).stop()
  }
  return found
}

/** All in one process, so that they meet the same code and the same machine. */
async function openNode(world, subject) {
  const { url } = world.redis.eu
  const own = { region: 'eu', url, cells: CELLS }
  const dead = await Promise.all(['us', 'ap'].map((other) => world.link('eu', other, 'dead')))
  const settings = {
    none: { ...own, links: {} },
    there: { region: 'us', url: world.redis.us.url, cells: CELLS, links: {} },
    on: { ...own, links: await world.links('eu') },
    direct: { ...own, links: await world.links('eu', 'direct') },
    'black-holed': { ...own, links: await world.links('eu', 'dead') },
  }
  const node = await world.startNode(subject, settings)
  for (const setting of ['on', 'direct', 'black-holed']) await node.order({ kind: 'meet', setting })
  for (const link of dead) link.blackhole()
  return node
}

/** Slices of all settings alternate; medians of the percentiles of each slice. */
async function measureLatency(world, nodes, { found, rounds, seconds, log }) {
  const slices = new Map()
  for (let round = 0; round <= rounds; round++) {
    log(`latency, round ${round} of ${rounds}`)
    for (const [subject, node] of nodes) {
      const order = round % 2 === 0 ? SETTINGS : SETTINGS.toReversed()
      for (const setting of order) {
        const load = { setting, cell: CELL, perSecond: PER_SECOND, seconds }
        const { latencies } = await node.order({ kind: 'spread', ...load })
        // The first round only compiles.
        if (round === 0) continue
        const name = `${subject} ${setting}`
        slices.set(name, [...(slices.get(name) ?? []), latencies])
      }
    }
  }
  for (const subject of SUBJECTS) {
    const of = (setting, p) =>
      median(slices.get(`${subject} ${setting}`).map((slice) => percentile(slice, p)))
    found.get(subject).latency = new Map(
      SETTINGS.map((setting) => [setting, { p50: of(setting, 0.5), p99: of(setting, 0.99) }]),
    )
  }
}

/** Of calls that each have a caller of their own, so that none of their reports are summed. */
async function measureUnits(world, nodes, { found, rounds, calls, log }) {
  const { us } = world.redis
  const rest = await watch(us, () => sleep(REST_MS))
  for (const [subject, node] of nodes) {
    const costs = []
    for (let round = 0; round <= rounds; round++) {
      log(`${subject}: cost, round ${round} of ${rounds}`)
      const order = { kind: 'hammer', cell: CELL, calls, waiting: WAITING }
      const none = await node.order({ ...order, setting: 'none', name: `none-${round}` })
      const startedMs = performance.now()
      const there = await watch(us, () =>
        node.order({ ...order, setting: 'direct', name: `direct-${round}` }),
      )
      if (round === 0) continue
      const rests = (performance.now() - startedMs) / REST_MS
      costs.push({
        nodeUs: (there.done.cpuUs - none.cpuUs) / calls / 2,
        redisUs: (there.cpuUs - rests * rest.cpuUs) / calls,
        bytes: (there.bytes - rests * rest.bytes) / calls,
      })
    }
    const of = (name) => median(costs.map((cost) => cost[name]))
    found.get(subject).unit = { nodeUs: of('nodeUs'), redisUs: of('redisUs'), bytes: of('bytes') }
  }
}

/** What one more call of a caller costs another region, by how many it made before. */
async function measureGrowth(world, node, { subject, log }) {
  const { us } = world.redis
  const grown = new Map()
  let made = 0
  for (const count of GROWN) {
    log(`${subject}: a caller of ${count} calls`)
    const order = { kind: 'fresh', setting: 'direct', cell: CELL, user: 'grown' }
    await node.order({ ...order, calls: count - made })
    const { done, bytesOut } = await watch(us, () => node.order({ ...order, calls: GROWN_CALLS }))
    made = count + GROWN_CALLS
    grown.set(count, { callMs: done.ms / GROWN_CALLS, replyBytes: bytesOut / GROWN_CALLS })
  }
  return grown
}

/** What a Redis did meanwhile, and read and wrote. */
async function watch(server, run) {
  const before = await countersOf(server)
  const done = await run()
  const after = await countersOf(server)
  return {
    done,
    cpuUs: after.cpuUs - before.cpuUs,
    bytes: after.bytesIn - before.bytesIn,
    bytesOut: after.bytesOut - before.bytesOut,
  }
}

async function countersOf(server) {
  const [cpu, stats] = await Promise.all([server.info('cpu'), server.info('stats')])
  return {
    cpuUs: (Number(cpu.used_cpu_user) + Number(cpu.used_cpu_sys)) * 1e6,
    bytesIn: Number(stats.total_net_input_bytes),
    bytesOut: Number(stats.total_net_output_bytes),
  }
}

export function percentile(numbers, p) {
  const ordered = Float64Array.from(numbers).sort()
  return ordered[Math.min(ordered.length - 1, Math.floor(ordered.length * p))]
}
