/**
 * Reservations from several processes, some of which are killed: each is charged for what was used,
 * for its reserve, or not at all, and never twice.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createLimiter, type Limiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { propertyRuns } from '../../tools/property-runs.js'
import { type RedisCluster, startCluster } from '../../tools/redis/cluster.js'
import { type FaultProxy, startFaultProxy } from '../../tools/redis/fault-proxy.js'
import { type RedisServer, scanWithoutTtl, startRedis } from '../../tools/redis/server.mjs'

const FIXTURE = fileURLToPath(new URL('./reservation-node.fixture.mjs', import.meta.url))
const NODES = 4
/** `npm run test:long` makes as many in every place as the published claim is based on. */
const isLong = process.env['SLUICE_RUNS'] !== undefined
const sequencesOf = (count: number) => (isLong ? 100_000 : propertyRuns(count))
const SEQUENCES = sequencesOf(100_000)
const WITH_FAULTS = sequencesOf(20_000)
const ON_CLUSTER = sequencesOf(25_000)
/** Longer than the most sequences take on a busy machine. */
const TIMEOUT_MS = 3_600_000
const WAITING = 32
const NO_FAULT_DEADLINE_MS = 10_000
/** Far above what all sequences use together, so that a user is refused by the total alone. */
const PER_USER = 1_000_000
/** Units of the total for each sequence: fewer than they use, so that it is reached. */
const TOTAL_EACH = 20

const counted = (id: string, by: readonly string[], max: number) => ({
  id,
  by,
  limits: [{ algorithm: 'fixed-window', max, window: '366d', name: 'all' }],
  cost: { attribute: 'tokens' },
  posture: 'closed',
})

/** The total is reached before the end, so that some are refused. */
const rulesFor = (sequences: number) => [
  counted('user', ['user'], PER_USER),
  counted('total', [], TOTAL_EACH * sequences),
]

/** What the lines of a node say of one reservation. */
interface Story {
  reserved?: number
  isReserved?: boolean | '?'
  more?: number
  isExtended?: boolean | '?'
  end?: number
  isEnded?: boolean | '?'
}

/**
 * The units that a user may be charged for, given all that is known. On a Cluster a refused call
 * `mayKeep` what it took in one slot, if its node was killed before that was given back.
 */
function possibleUnits(story: Story, mayKeep: boolean): ReadonlySet<number> {
  const { reserved = 0, isReserved, more = 0, isExtended, end, isEnded } = story
  if (isReserved === false && !mayKeep) return new Set([0])
  if (isReserved !== true) return new Set([0, reserved])
  const isRefused = isExtended === false && !mayKeep
  const isMoreKnown = more === 0 || isExtended === true || isRefused
  const held = isExtended === true ? reserved + more : reserved
  // An extension whose answer was lost stays charged beside what the old handle settles.
  const lost = isMoreKnown ? [0] : [0, more]
  const outcomes = end === undefined ? [held] : isEnded === true ? [end] : [held, end]
  return new Set(outcomes.flatMap((units) => lost.map((extra) => units + extra)))
}

class ReservingNode {
  readonly stories = new Map<string, Story>()
  readonly #child: ChildProcess
  readonly ready: Promise<void>
  readonly done: Promise<void>
  #errors = ''
  #isKilled = false

  constructor(task: object) {
    this.#child = spawn(process.execPath, [FIXTURE, JSON.stringify(task)], {
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#errors += chunk.toString()
    })
    let onReady = () => {}
    this.ready = new Promise((resolve) => {
      onReady = resolve
    })
    const lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream })
    lines.on('line', (line) => {
      if (line === 'ready') onReady()
      else this.read(line)
    })
    this.done = Promise.all([once(this.#child, 'close'), once(lines, 'close')]).then(([[code]]) => {
      if (code !== 0 && !this.#isKilled) throw new Error(`a node failed: ${this.#errors}`)
    })
  }

  go(): void {
    this.#child.stdin?.write('go\n')
  }

  kill(): void {
    this.#isKilled = true
    this.#child.kill('SIGKILL')
  }

  private read(line: string): void {
    const [step, user = '', value = ''] = line.split(' ')
    const story = this.stories.get(user) ?? {}
    this.stories.set(user, story)
    const fate = value === '?' ? '?' : value === '1'
    if (step === 'made') story.reserved = Number(value)
    else if (step === 'reserved') story.isReserved = fate
    else if (step === 'more') story.more = Number(value)
    else if (step === 'extended') story.isExtended = fate
    else if (step === 'end') story.end = Number(value)
    else if (step === 'ended') story.isEnded = fate
    else this.stories.delete(user)
  }
}

interface RunOptions {
  readonly url: string
  readonly sequences: number
  readonly deadlineMs?: number
  /** How many of the nodes are killed on the way. */
  readonly killed: number
  readonly during?: (isRunning: () => boolean) => Promise<void>
}

/** Lets the nodes work, kills some, and returns what is known of each reservation. */
async function runNodes(options: RunOptions): Promise<ReadonlyMap<string, Story>> {
  const { url, sequences, killed, deadlineMs = NO_FAULT_DEADLINE_MS, during } = options
  const nodes = Array.from({ length: NODES }, (_, node) => {
    const share = Math.ceil(sequences / NODES)
    const rules = rulesFor(sequences)
    return new ReservingNode({ url, rules, node, sequences: share, waiting: WAITING, deadlineMs })
  })
  try {
    await Promise.all(nodes.map(({ ready }) => ready))
    for (const node of nodes) node.go()
    const all = Promise.all(nodes.map(({ done }) => done))
    let isRunning = true
    const finished = all.finally(() => {
      isRunning = false
    })
    const faults = during?.(() => isRunning)
    for (const node of nodes.slice(0, killed)) {
      // A part of its reservations is done, the others are at every step.
      while (isRunning && node.stories.size < share(sequences, 3)) await sleep(1)
      node.kill()
    }
    await finished
    await faults
  } finally {
    for (const node of nodes) node.kill()
  }
  return new Map(nodes.flatMap(({ stories }) => [...stories]))
}

const share = (sequences: number, parts: number) => Math.floor(sequences / NODES / parts)

interface Usage {
  readonly total: number
  readonly users: ReadonlyMap<string, number>
}

async function readUsage(
  limiter: Limiter,
  names: Iterable<string>,
  sequences: number,
): Promise<Usage> {
  const users = new Map<string, number>()
  const limitOf = async (user: string, rule: string) => {
    const call = { attributes: { user, tokens: 0 } }
    const { counters } = await limiter.inspect(rule, call)
    return counters[0]?.remaining ?? 0
  }
  let batch: Promise<unknown>[] = []
  for (const name of names) {
    batch.push(limitOf(name, 'user').then((left) => users.set(name, PER_USER - left)))
    if (batch.length < 500) continue
    await Promise.all(batch)
    batch = []
  }
  await Promise.all(batch)
  return { total: 2 * TOTAL_EACH * sequences - (await limitOf('any', 'total')), users }
}

/** Returns the reservations that are charged for something that cannot be. */
function findWrong(
  stories: ReadonlyMap<string, Story>,
  { users }: Usage,
  mayKeep: (user: string) => boolean = () => false,
): readonly unknown[] {
  const wrong: unknown[] = []
  for (const [user, story] of stories) {
    const used = users.get(user) ?? 0
    if (!possibleUnits(story, mayKeep(user)).has(used)) wrong.push({ user, used, ...story })
  }
  return wrong
}

const sumOf = ({ users }: Usage) => [...users.values()].reduce((sum, units) => sum + units, 0)

/** Read with a total of twice the size: what settles have overdrawn is below an empty one. */
async function usageAt(url: string, stories: ReadonlyMap<string, Story>, sequences: number) {
  const rules = rulesFor(2 * sequences)
  const limiter = createLimiter({ rules, store: redisStore({ url, deadlineMs: 10_000 }) })
  try {
    await limiter.ready()
    return await readUsage(limiter, stories.keys(), sequences)
  } finally {
    await limiter.close()
  }
}

describe('on one Redis', () => {
  let server: RedisServer
  let proxy: FaultProxy

  beforeAll(async () => {
    server = await startRedis()
    proxy = await startFaultProxy(server.port)
  })
  afterAll(async () => {
    await proxy.stop()
    await server.stop()
  })

  test(
    `${SEQUENCES} sequences of ${NODES} processes, two of them killed, conserve the budget to the unit`,
    async () => {
      await server.cli('FLUSHALL')
      const stories = await runNodes({ url: server.url, sequences: SEQUENCES, killed: 2 })
      const usage = await usageAt(server.url, stories, SEQUENCES)
      expect(findWrong(stories, usage)).toEqual([])
      expect(usage.total).toBe(sumOf(usage))
      const refused = [...stories.values()].filter(({ isReserved }) => isReserved === false)
      expect(refused.length).toBeGreaterThan(0)
      expect(await scanWithoutTtl(server)).toEqual([])
    },
    TIMEOUT_MS,
  )

  test(
    `${WITH_FAULTS} sequences with a random fault every second charge nothing twice`,
    async () => {
      await server.cli('FLUSHALL')
      const sequences = WITH_FAULTS
      const faults = [
        () => proxy.cut(),
        () => proxy.hold(),
        () => proxy.blackhole('to-client'),
        () => proxy.delay(30, 30),
      ]
      const stories = await runNodes({
        url: proxy.url,
        sequences,
        killed: 1,
        deadlineMs: 50,
        during: async (isRunning) => {
          while (isRunning()) {
            const startsAfterMs = 700 * Math.random()
            await sleep(startsAfterMs)
            faults[Math.floor(Math.random() * faults.length)]?.()
            await sleep(300)
            await proxy.heal()
            await sleep(700 - startsAfterMs)
          }
        },
      })
      await proxy.heal()
      const usage = await usageAt(server.url, stories, sequences)
      expect(findWrong(stories, usage)).toEqual([])
      expect(usage.total).toBe(sumOf(usage))
    },
    TIMEOUT_MS,
  )

  test('a reserve and an extension whose answers are lost are charged once when they are sent again', async () => {
    await server.cli('FLUSHALL')
    const rules = [{ ...counted('user', ['user'], 1000), posture: 'open' }]
    const call = { attributes: { user: 'u1', tokens: 100 } }
    const key = { idempotencyKey: 'k' }
    const limiter = createLimiter({ rules, store: redisStore({ url: proxy.url, deadlineMs: 100 }) })
    const other = createLimiter({ rules, store: redisStore({ url: server.url }) })
    try {
      await Promise.all([limiter.ready(), other.ready()])
      proxy.blackhole('to-client')
      expect((await limiter.reserve(call, key)).source).toBe('posture')
      const reservation = await other.reserve(call, key)
      expect(reservation.reserved()).toEqual({ tokens: 100 })
      const handle = reservation.reservation ?? ''
      expect((await limiter.extend(handle, { tokens: 50 }, key)).source).toBe('posture')
      const extended = await other.extend(handle, { tokens: 50 }, key)
      expect(extended.reserved()).toEqual({ tokens: 150 })
      expect(await extended.settle(120)).toMatchObject({ charged: 120, givenBack: 30 })
      expect(await other.limits(call)).toMatchObject([{ remaining: 880 }])
    } finally {
      await proxy.heal()
      await Promise.all([limiter.close(), other.close()])
    }
  })
})

describe('on several slots of a Cluster', () => {
  let cluster: RedisCluster

  beforeAll(async () => {
    cluster = await startCluster({ primaries: 3, replicas: 0 })
  })
  afterAll(() => cluster.stop())

  test(
    `of ${ON_CLUSTER} sequences a killed node leaves the open ones at their reserve, and none is charged twice`,
    async () => {
      await Promise.all(cluster.nodes.map((node) => node.cli('FLUSHALL')))
      const sequences = ON_CLUSTER
      const killed = 2
      const stories = await runNodes({ url: cluster.url, sequences, killed })
      const usage = await usageAt(cluster.url, stories, sequences)
      const isOfKilled = (user: string) => Number(user.split('-')[0]) < killed
      expect(findWrong(stories, usage, isOfKilled)).toEqual([])
      // Only what the killed nodes had in flight may be in one slot and not in the other.
      const open = 2 * WAITING * (100 + 50 + 150)
      expect(Math.abs(usage.total - sumOf(usage))).toBeLessThanOrEqual(open)
    },
    TIMEOUT_MS,
  )

  test('reserves with keys that compete for the last units are admitted with their units, or refused', async () => {
    const rules = [counted('user', ['user'], PER_USER), counted('team', ['team'], 1000)]
    const open = () => {
      const store = redisStore({ url: cluster.url, deadlineMs: NO_FAULT_DEADLINE_MS })
      return createLimiter({ rules, store })
    }
    const limiters = [open(), open()] as const
    const [first] = limiters
    const usedBy = async (call: { attributes: Record<string, string | number> }) => {
      const { counters } = await first.inspect('user', call)
      return PER_USER - (counters[0]?.remaining ?? 0)
    }
    try {
      await Promise.all(limiters.map((limiter) => limiter.ready()))
      for (let round = 0; round < propertyRuns(50); round++) {
        const calls = Array.from({ length: 100 }, (_, i) => ({
          attributes: { user: `last-${round}-${i}`, team: `team-${round}`, tokens: 15 },
        }))
        const decisions = await Promise.all(
          calls.map((call, i) =>
            limiters[i % 2 === 0 ? 0 : 1].reserve(call, { idempotencyKey: 'k' }),
          ),
        )
        const admitted = calls.filter((_, i) => decisions[i]?.allowed)
        const used = await Promise.all(admitted.map(usedBy))
        expect(used.filter((units) => units !== 15)).toEqual([])
        expect(admitted.length).toBeLessThanOrEqual(Math.floor(1000 / 15))
      }
    } finally {
      await Promise.all(limiters.map((limiter) => limiter.close()))
    }
  })
})
