/** A fleet of node processes on one Redis, and their combined results. */
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startNodeProcess } from '../node-process.mjs'
import { pin, readStore, startStore } from '../redis/processes.mjs'

/** The settings of every rule in these measurements, as the page states them. */
export const MAX_STRANDED = 0.05
export const SYNC_EVERY_MS = 100
/** Long enough that no posture decides, even if ten processes share two cores. */
const DEADLINE_MS = 1000

const NODE = fileURLToPath(new URL('./node.mjs', import.meta.url))
const MEET_MS_MAX = 10_000
const LOOK_EVERY_MS = 50
/** Every node begins at this time, by which the last order has been sent. */
const BEGIN_AFTER_MS = 100
const REST_MS = 2000
const POSTURE = 4

/** One rule for each cell, found by an attribute, so that its sums are its own. */
export function ruleOf({ id, coordination, algorithm, max, windowMs }) {
  const shared = {
    leased: { maxStranded: MAX_STRANDED },
    local: { syncEvery: `${SYNC_EVERY_MS}ms` },
  }
  return {
    id,
    match: { where: { cell: [id] } },
    by: ['user'],
    limits: [{ algorithm, max, window: `${windowMs}ms` }],
    coordination,
    ...shared[coordination],
  }
}

/** `clockOffsetsMs`: how far the wall clock of each node is off. */
export async function startFleet({ nodes, cells, isPinned = false, ...options }) {
  const server = await startStore({ isPinned })
  const rules = cells.map(ruleOf)
  const { clockOffsetsMs = [], deadlineMs = DEADLINE_MS } = options
  const started = await Promise.all(
    Array.from({ length: nodes }, (_, i) =>
      startNode(
        { url: server.url, rules, fleetSize: nodes, deadlineMs, clockOffsetMs: clockOffsetsMs[i] },
        isPinned,
      ),
    ),
  )
  const fleet = new Fleet(server, started)
  await fleet.meet()
  await fleet.rest()
  return fleet
}

class Fleet {
  #server
  #nodes
  #restScripts = 0

  constructor(server, nodes) {
    this.#server = server
    this.#nodes = nodes
  }

  get size() {
    return this.#nodes.length
  }

  /** Settles once each node knows of all. */
  async meet() {
    const until = Date.now() + MEET_MS_MAX
    for (;;) {
      const sizes = await this.orderAll(() => ({ kind: 'fleet' }))
      if (sizes.every((size) => size === this.size)) return
      if (Date.now() > until) throw new Error(`nodes did not meet: they know of ${sizes.join()}`)
      await sleep(LOOK_EVERY_MS)
    }
  }

  orderAll(orderOf) {
    return Promise.all(this.#nodes.map((node, i) => node.order(orderOf(i))))
  }

  /** The requests per second of heartbeats and similar, which belong to no decision. */
  async rest() {
    this.#restScripts = 0
    const { scripts } = await this.watch(() => sleep(REST_MS))
    this.#restScripts = scripts / REST_MS
  }

  /** The requests to Redis caused by the calls, and their total cost. */
  async watch(run) {
    const before = await readStore(this.#server)
    const startedMs = performance.now()
    const done = await run()
    const after = await readStore(this.#server)
    const rest = this.#restScripts * (performance.now() - startedMs)
    const scripts = Math.max(0, after.scripts - before.scripts - rest)
    return { done, scripts, cpuUs: after.cpuUs - before.cpuUs }
  }

  /** `duesOf(i)`: when node i calls, in milliseconds after the start. All calls, sorted by time. */
  async play({ rule, duesOf, startMs = Date.now() + BEGIN_AFTER_MS }) {
    const orderOf = (i) => ({ kind: 'play', rule, startMs, dues: Float64Array.from(duesOf(i)) })
    const watched = await this.watch(() => this.orderAll(orderOf))
    const played = watched.done
    const stats = sumOf(await this.orderAll(() => ({ kind: 'stats', rule })))
    const calls = played.flatMap(({ asked: from, times, granted, admitted, answered }) =>
      Array.from(times, (time, i) => {
        const isAdmitted = admitted[i] === 1
        return {
          time,
          admitted: isAdmitted,
          from: from[i],
          until: answered[i],
          granted: granted[i],
        }
      }),
    )
    const asked = sorted(played.flatMap((each) => [...each.asked]))
    return {
      calls: calls.toSorted((a, b) => a.time - b.time),
      asked,
      seconds: (Math.max(...played.map(({ answered }) => answered.at(-1))) - asked[0]) / 1e6,
      admitted: sorted(calls.filter((call) => call.admitted).map(({ time }) => time)),
      byPosture: played.flatMap(({ sources }) => [...sources]).filter((s) => s === POSTURE).length,
      roundTripMs: Math.max(...played.map((each) => each.roundTripMs)),
      lateMs: Math.max(...played.map((each) => each.lateMs)),
      leastFleet: Math.min(...played.map((each) => each.leastFleet)),
      held: heldTogether(played.map(({ held }) => held)),
      scripts: watched.scripts,
      redisUs: watched.cpuUs,
      stats,
    }
  }

  /** Every node as fast as it can. */
  async hammer(order) {
    const orderOf = () => ({ kind: 'hammer', ...order })
    const { done, scripts, cpuUs } = await this.watch(() => this.orderAll(orderOf))
    const total = (of) => sum(done.map(of))
    return {
      decisions: total((each) => each.decisions),
      admitted: total((each) => each.admitted),
      posture: total((each) => each.posture),
      rate: total((each) => each.decisions / each.seconds),
      clientUs: total((each) => each.cpuUs),
      redisUs: cpuUs,
      scripts,
      stats: sumOf(done.map(({ stats }) => stats)),
    }
  }

  async stop() {
    await this.orderAll(() => ({ kind: 'close' }))
    await Promise.all(this.#nodes.map((node) => node.stop()))
    await this.#server.stop()
  }
}

async function startNode(options, isPinned) {
  const node = await startNodeProcess(NODE, options)
  if (isPinned) pin(node.pid, 'worker')
  return node
}

const sorted = (times) => Float64Array.from(times).sort()

/** The units that all nodes held together, at each sampled moment. */
function heldTogether(seen) {
  const looks = seen
    .flatMap((samples, node) => samples.map(([time, held]) => ({ time, node, held })))
    .toSorted((a, b) => a.time - b.time)
  const now = seen.map(() => 0)
  return looks.map(({ time, node, held }) => {
    now[node] = held
    return { time, held: sum(now) }
  })
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0)
}

function sumOf(list) {
  const total = {}
  for (const stats of list) {
    for (const [name, value] of Object.entries(stats)) total[name] = (total[name] ?? 0) + value
  }
  return total
}
