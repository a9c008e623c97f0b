import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type RedisServer, scanWithoutTtl, startRedis } from '../../../../../tools/redis/server.mjs'
import { monotonicMs } from '../../clock.js'
import {
  FakeScheduler,
  openChannel,
  settled,
  type TestChannel,
} from '../connection/channel.test-helper.js'
import {
  type HeartbeatReply,
  randomNodeId,
  FleetMembership,
  heartbeatSender,
} from './fleet-membership.js'
import { type Scheduler, systemScheduler } from '../../periodic.js'
import { storeKeys } from '../protocol/redis-keys.js'

describe('a node of the fleet', () => {
  const answer = (nodes: number, wasKnown = true, place = 0): HeartbeatReply => ({
    nodes,
    wasKnown,
    fingerprint: undefined,
    place,
  })

  function makeFleet(answers: readonly (HeartbeatReply | Error | 'none')[], fleetSize?: number) {
    const scheduler = new FakeScheduler()
    const lives: number[] = []
    const seen: HeartbeatReply[] = []
    const fleet = new FleetMembership({
      scheduler,
      fleetSize,
      nowMs: () => scheduler.nowMs,
      onHeartbeat: (beaten) => void seen.push(beaten),
      sendHeartbeat: (lifeMs) => {
        lives.push(lifeMs)
        const next = answers[lives.length - 1] ?? new Error('no answer')
        if (next === 'none') return new Promise(() => {})
        return next instanceof Error ? Promise.reject(next) : Promise.resolve(next)
      },
    })
    return { fleet, scheduler, lives, seen }
  }

  test('has a unique id of 64 bits', () => {
    const ids = Array.from({ length: 100 }, randomNodeId)
    expect(ids.filter((id) => /^[0-9a-f]{16}$/.test(id))).toHaveLength(100)
    expect(new Set(ids).size).toBe(100)
  })

  test('uses the configured size until the store has replied', async () => {
    expect(makeFleet([]).fleet.size()).toBe(1)
    const { fleet, scheduler } = makeFleet([answer(3, false), answer(3)], 8)
    expect([fleet.size(), fleet.ageMs()]).toEqual([8, Infinity])
    fleet.start()
    await scheduler.advance(500)
    expect([fleet.size(), fleet.ageMs()]).toEqual([3, 0])
  })

  test('sends a heartbeat at once and every 500 ms, for 1,500 ms each', async () => {
    const { fleet, scheduler, lives, seen } = makeFleet([1, 2, 3, 4].map((n) => answer(n)))
    fleet.start()
    await scheduler.advance(1499)
    expect([lives, fleet.size()]).toEqual([[1500, 1500, 1500], 3])
    expect(seen.map(({ nodes }) => nodes)).toEqual([1, 2, 3])
  })

  test('keeps the last number while the store is silent, and knows its age', async () => {
    const { fleet, scheduler } = makeFleet([answer(5), new Error('no'), new Error('no'), answer(4)])
    fleet.start()
    await scheduler.advance(1400)
    expect([fleet.size(), fleet.ageMs()]).toEqual([5, 1400])
    await scheduler.advance(100)
    expect([fleet.size(), fleet.ageMs()]).toEqual([4, 0])
  })

  test('never has two heartbeats in flight', async () => {
    const { fleet, scheduler, lives } = makeFleet([answer(2), 'none'])
    fleet.start()
    await scheduler.advance(60_000)
    expect(lives).toHaveLength(2)
    expect([fleet.size(), fleet.ageMs()]).toEqual([2, 60_000])
  })

  test('accepts a smaller number only the second time if it had been forgotten', async () => {
    const answers = [answer(5), answer(1, false), answer(4), answer(6, false), answer(2)]
    const { fleet, scheduler } = makeFleet(answers)
    const sizes: number[] = []
    fleet.start()
    for (const _ of answers) {
      await settled()
      sizes.push(fleet.size())
      await scheduler.advance(500)
    }
    expect(sizes).toEqual([5, 5, 4, 6, 2])
  })

  test('has the first place until the store replies, and always one within its fleet', async () => {
    const { fleet, scheduler } = makeFleet([
      answer(5, true, 3),
      new Error('no'),
      answer(2, true, 7),
    ])
    expect(fleet.place()).toBe(0)
    fleet.start()
    await scheduler.advance(500)
    expect([fleet.size(), fleet.place()]).toEqual([5, 3])
    await scheduler.advance(500)
    expect([fleet.size(), fleet.place()]).toEqual([2, 1])
  })

  test('keeps its place while it keeps the number if it had been forgotten', async () => {
    const answers = [
      answer(5, true, 3),
      answer(1, false, 0),
      answer(5, true, 3),
      answer(6, false, 4),
      answer(4, true, 2),
    ]
    const { fleet, scheduler } = makeFleet(answers)
    const places: number[] = []
    fleet.start()
    for (const _ of answers) {
      await settled()
      places.push(fleet.place())
      await scheduler.advance(500)
    }
    expect(places).toEqual([3, 3, 3, 4, 2])
  })

  test('leaves once, and sends no more heartbeats', async () => {
    const { fleet, scheduler, lives } = makeFleet([answer(2), answer(1)])
    fleet.start()
    await settled()
    await Promise.all([fleet.leave(), fleet.leave()])
    fleet.start()
    await scheduler.advance(5000)
    expect([lives, scheduler.waiting]).toEqual([[1500, 0], 0])
  })

  test('leaves without an error if the store is gone or was never used', async () => {
    const gone = makeFleet([answer(2), new Error('gone')])
    gone.fleet.start()
    await settled()
    await gone.fleet.leave()
    expect(gone.fleet.size()).toBe(2)
    const unasked = makeFleet([])
    await unasked.fleet.leave()
    expect(unasked.lives).toEqual([])
  })
})

describe('a fleet on a real Redis', () => {
  const prefix = 'sluice'
  const keys = storeKeys(prefix)
  /** The TTL of heartbeats sent by the test: longer than the machine may delay them. */
  const LONG_MS = 120_000
  const SOON = { timeout: 30_000, interval: 10 }
  let server: RedisServer
  const open: { readonly channel: TestChannel; crash(): void }[] = []

  beforeAll(async () => {
    server = await startRedis()
  })
  afterAll(() => server?.stop())
  beforeEach(() => server.call('FLUSHALL'))
  afterEach(() => {
    for (const node of open.splice(0)) node.crash()
  })

  /** Timers that stop with the node, like those of a process. */
  function mortalTimers(): { scheduler: Scheduler; die: () => void } {
    let isDead = false
    const scheduler: Scheduler = {
      after: (ms, run) => systemScheduler.after(ms, () => void (isDead || run())),
    }
    const die = () => {
      isDead = true
    }
    return { scheduler, die }
  }

  async function startNode() {
    const channel = await openChannel(server.port)
    const { scheduler, die } = mortalTimers()
    const sendHeartbeat = heartbeatSender(channel.run, { prefix, node: randomNodeId() })
    const fleet = new FleetMembership({ sendHeartbeat, scheduler, nowMs: monotonicMs })
    const crash = () => {
      die()
      channel.close()
    }
    open.push({ channel, crash })
    fleet.start()
    return { fleet, crash, beat: sendHeartbeat }
  }

  type Node = Awaited<ReturnType<typeof startNode>>

  const everybodySees = (nodes: readonly Node[], size: number) =>
    vi.waitFor(
      () => expect(nodes.map(({ fleet }) => fleet.size())).toEqual(nodes.map(() => size)),
      SOON,
    )

  test('every node sees joins, leaves and crashes', async () => {
    const nodes = await Promise.all([startNode(), startNode(), startNode()])
    await everybodySees(nodes, 3)
    const fourth = await startNode()
    await everybodySees([...nodes, fourth], 4)
    await fourth.fleet.leave()
    await everybodySees(nodes, 3)
    nodes[2].crash()
    await everybodySees([nodes[0], nodes[1]], 2)
    expect(await scanWithoutTtl(server)).toEqual([])
  })

  test('every node has its own place, by the order of their ids', async () => {
    const channel = await openChannel(server.port)
    const beatOf = (node: string) => heartbeatSender(channel.run, { prefix, node })
    const placesOf = async (nodes: readonly string[]) => {
      for (const node of nodes) await beatOf(node)(LONG_MS)
      return Promise.all(nodes.map(async (node) => (await beatOf(node)(LONG_MS)).place))
    }
    expect(await placesOf(['cc', 'aa', 'ee', 'bb'])).toEqual([2, 0, 3, 1])
    expect(await placesOf(['ee', 'cc', 'bb', 'aa'])).toEqual([3, 2, 1, 0])
    expect(await beatOf('bb')(0)).toMatchObject({ nodes: 3, place: 0 })
    expect(await placesOf(['cc', 'aa', 'ee'])).toEqual([1, 0, 2])
    expect(await placesOf(['cc', 'a0', 'ee', 'aa'])).toEqual([2, 0, 3, 1])
    channel.close()
  })

  test('places close up behind nodes that crashed or were lost', async () => {
    const channel = await openChannel(server.port)
    const beatOf = (node: string) => heartbeatSender(channel.run, { prefix, node })
    for (const node of ['aa', 'bb', 'cc']) await beatOf(node)(LONG_MS)
    await server.call('ZADD', keys.fleet, '1', 'aa')
    expect(await beatOf('cc')(LONG_MS)).toMatchObject({ nodes: 2, place: 1 })
    expect(await server.call('ZSCORE', keys.places, 'aa')).toBeNull()
    // A node with an older script is in the fleet set only, without a place.
    await server.call('ZADD', keys.fleet, String(Date.now() + LONG_MS / 2), 'b0')
    expect(await beatOf('cc')(LONG_MS)).toMatchObject({ nodes: 3, place: 2 })
    await server.call('DEL', keys.places)
    expect(await beatOf('cc')(LONG_MS)).toMatchObject({ nodes: 3, place: 2 })
    expect(await scanWithoutTtl(server)).toEqual([])
    channel.close()
  })

  test('a flush of data or scripts does not change the number', async () => {
    const nodes = await Promise.all(
      [1, 2, 3].map(async () => {
        const channel = await openChannel(server.port)
        const scheduler = new FakeScheduler()
        const beatOnce = heartbeatSender(channel.run, { prefix, node: randomNodeId() })
        const sendHeartbeat = (lifeMs: number) => beatOnce(lifeMs && LONG_MS)
        let beats = 0
        const onHeartbeat = () => void (beats += 1)
        const fleet = new FleetMembership({
          sendHeartbeat,
          scheduler,
          onHeartbeat,
          nowMs: () => scheduler.nowMs,
        })
        open.push({ channel, crash: () => channel.close() })
        fleet.start()
        return { fleet, scheduler, beats: () => beats }
      }),
    )
    const sizes: number[] = []
    const places = () => nodes.map(({ fleet }) => fleet.place())
    const beatInTurn = async (rounds: number) => {
      for (const { fleet, scheduler, beats } of Array.from(
        { length: rounds },
        () => nodes,
      ).flat()) {
        const before = beats()
        await scheduler.advance(500)
        await vi.waitFor(() => expect(beats()).toBe(before + 1), { ...SOON, interval: 1 })
        sizes.push(fleet.size())
      }
    }
    await vi.waitFor(() => expect(nodes.map(({ beats }) => beats())).toEqual([1, 1, 1]), SOON)
    await beatInTurn(2)
    sizes.length = 0
    const before = places()
    expect(new Set(before)).toEqual(new Set([0, 1, 2]))
    await server.pipeline([['FLUSHALL'], ['SCRIPT', 'FLUSH']])
    await beatInTurn(1)
    expect(places()).toEqual(before)
    await beatInTurn(2)
    expect(new Set(sizes)).toEqual(new Set([3]))
    expect(places()).toEqual(before)
  })

  test('the last node that leaves removes the set', async () => {
    const { fleet } = await startNode()
    await vi.waitFor(async () => expect(await server.call('EXISTS', keys.fleet)).toBe(1), SOON)
    await fleet.leave()
    expect(await server.call('EXISTS', keys.fleet, keys.places)).toBe(0)
  })

  test('the set expires without heartbeats', async () => {
    const channel = await openChannel(server.port)
    const sendHeartbeat = heartbeatSender(channel.run, { prefix, node: randomNodeId() })
    const answered = { nodes: 1, wasKnown: false, fingerprint: undefined, place: 0 }
    expect(await sendHeartbeat(LONG_MS)).toEqual(answered)
    for (const key of [keys.fleet, keys.places]) {
      expect(await server.call('PTTL', key)).toBeGreaterThan(LONG_MS)
      expect(await server.call('PTTL', key)).toBeLessThanOrEqual(2 * LONG_MS)
    }
    channel.close()
  })

  test('a heartbeat returns the fingerprint of the key secret', async () => {
    const channel = await openChannel(server.port)
    const sendHeartbeat = heartbeatSender(channel.run, { prefix, node: randomNodeId() })
    await server.call('SET', keys.fingerprint, '0011223344556677', 'EX', '9')
    expect(await sendHeartbeat(LONG_MS)).toMatchObject({ fingerprint: '0011223344556677' })
    expect(await sendHeartbeat(LONG_MS)).toMatchObject({ wasKnown: true })
    channel.close()
  })

  describe('after a step of the clock', () => {
    const storeMs = async () => {
      const [s, us] = (await server.call('TIME')) as readonly string[]
      return Number(s) * 1000 + Math.floor(Number(us) / 1000)
    }

    test('back by an hour, dead nodes are removed no later', async () => {
      const channel = await openChannel(server.port)
      const sendHeartbeat = heartbeatSender(channel.run, { prefix, node: randomNodeId() })
      await sendHeartbeat(LONG_MS)
      await server.call('ZADD', keys.fleet, String((await storeMs()) + 3_600_000), 'gone')
      expect(await sendHeartbeat(LONG_MS)).toMatchObject({ nodes: 2, wasKnown: true })
      const score = Number(await server.call('ZSCORE', keys.fleet, 'gone'))
      expect(score).toBeLessThanOrEqual((await storeMs()) + LONG_MS)
      channel.close()
    })

    test('forward by an hour, no node is known any more', async () => {
      const channel = await openChannel(server.port)
      const node = randomNodeId()
      const sendHeartbeat = heartbeatSender(channel.run, { prefix, node })
      const past = String((await storeMs()) - 3_600_000)
      await server.call('ZADD', keys.fleet, past, node, past, 'another')
      expect(await sendHeartbeat(LONG_MS)).toMatchObject({ nodes: 1, wasKnown: false })
      channel.close()
    })
  })
})
