import { connect } from 'node:net'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { type CounterKey, defineLimit, type Limit, type Take } from '@sluice/core'
import { afterEach, describe, expect, test } from 'vitest'
import { manualClock } from '../testing/manual-clock.js'
import { OwnerTable } from './owner-table.js'
import { startPeerServer } from './peer-server.js'
import type { RingStore } from './ring-store.js'
import { openRing, type TestRing, type TestRingOptions, waitUntil } from './ring.test-helper.js'

const window = defineLimit({ algorithm: 'fixed-window', max: 100, windowMs: 86_400_000 })
const open: TestRing[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((ring) => ring.close()))
})

async function ringOf(names: readonly string[], options: TestRingOptions = {}): Promise<TestRing> {
  const ring = await openRing(names, { clock: manualClock(), ...options })
  open.push(ring)
  return ring
}

const key = (n: number): CounterKey => ({
  hi: Math.imul(n + 1, 0x9e3779b1),
  lo: n,
  partition: n % 128,
})

/** A number whose counter a member of these owns. */
function ownedBy(owner: string, members: readonly string[], from = 0): number {
  const table = new OwnerTable(members)
  for (let n = from; ; n++) {
    if (table.members[table.ownerOf(key(n).partition)] === owner) return n
  }
}

const take = (n: number, limit: Limit = window, amount = 1): Take => ({
  key: key(n),
  limit,
  amount,
})

async function granted(store: RingStore, takes: readonly Take[]): Promise<readonly unknown[]> {
  const [row = []] = await store.take([takes])
  return row.map((answer) => (typeof answer === 'string' ? answer : answer.granted))
}

async function remaining(store: RingStore, n: number, limit: Limit = window): Promise<number> {
  const [[outcome] = []] = await store.peek([[take(n, limit, 0)]])
  return outcome?.remaining ?? NaN
}

/** The member of this index. */
function at(ring: TestRing, index: number): RingStore {
  const store = ring.stores[index]
  if (store === undefined) throw new Error(`found no member ${index}`)
  return store
}

describe('the members of a ring', () => {
  test('admit each caller exactly its limit, whichever member is asked', async () => {
    const ring = await ringOf(['a', 'b', 'c'])
    const callers = 30
    const calls = Array.from({ length: callers * 130 }, (_, n) =>
      granted(at(ring, n % 3), [take(n % callers)]),
    )
    const answers = (await Promise.all(calls)).flat()
    expect(answers.filter((each) => each === 1)).toHaveLength(callers * window.max)
    expect(answers).not.toContain('unknown')
  })

  test('charge a call with counters of several members whole or not at all', async () => {
    const ring = await ringOf(['a', 'b', 'c'])
    const members = ['a', 'b', 'c']
    const [one, other] = [ownedBy('b', members), ownedBy('c', members)]
    const small = defineLimit({ algorithm: 'fixed-window', max: 5, windowMs: 86_400_000 })
    const calls = Array.from({ length: 20 }, (_, n) =>
      granted(at(ring, n % 3), [take(one), take(other, small)]),
    )
    const passed = (await Promise.all(calls)).filter(([first]) => first === 1)
    expect(passed.length).toBeLessThanOrEqual(5)
    await waitUntil(async () => (await remaining(at(ring, 0), one)) === 100 - passed.length)
    expect(await remaining(at(ring, 0), other, small)).toBe(5 - passed.length)
  })

  test('show the owner of a counter, and what it holds', async () => {
    const ring = await ringOf(['a', 'b'])
    const n = ownedBy('b', ['a', 'b'])
    await granted(at(ring, 0), [take(n)])
    const shown = await at(ring, 0).inspector.inspect(key(n), window)
    expect(shown).toMatchObject({ node: 'b', bytes: 40 })
    expect(await at(ring, 1).inspector.inspect(key(n), window)).toMatchObject({ node: null })
  })

  test('read the texts of all members', async () => {
    const ring = await ringOf(['a', 'b', 'c'])
    await Promise.all(ring.stores.map((store, n) => store.exchange.post(`text ${n}`)))
    expect((await at(ring, 1).exchange.read()).toSorted()).toEqual(['text 0', 'text 1', 'text 2'])
  })

  test('count what they sent to each other', async () => {
    const ring = await ringOf(['a', 'b'])
    const n = ownedBy('b', ['a', 'b'])
    await granted(at(ring, 0), [take(n)])
    const { forwarded, members, deputy } = at(ring, 0).ringStats()
    expect([...forwarded]).toEqual([['b', 1]])
    expect(deputy).toBe(0)
    expect(members.map(({ name }) => name)).toEqual(['a', 'b'])
    expect(members.reduce((sum, { partitions }) => sum + partitions, 0)).toBe(128)
  })
})

describe('the counters of a ring', () => {
  const LIMITS: readonly (readonly [string, Limit])[] = (
    [
      { algorithm: 'token-bucket', max: 10, windowMs: 86_400_000 },
      { algorithm: 'gcra', max: 10, windowMs: 86_400_000, burst: 10 },
      { algorithm: 'fixed-window', max: 10, windowMs: 86_400_000 },
      { algorithm: 'fixed-window', max: 10, windowMs: 86_400_000, start: 'call' },
      { algorithm: 'sliding-window-counter', max: 10, windowMs: 86_400_000 },
      { algorithm: 'sliding-window-log', max: 10, windowMs: 86_400_000 },
      { algorithm: 'leaky-bucket', max: 10, windowMs: 86_400_000, queue: 9 },
      { algorithm: 'concurrency', max: 10, windowMs: 0 },
    ] as const
  ).map((spec) => [spec.algorithm, defineLimit(spec)])

  test.each(LIMITS)('of a %s go along when a member joins', async (_, limit) => {
    const ring = await ringOf(['a', 'b'])
    const before = await countAll(ring, limit)
    await ring.add('c')
    const isSame = async () => isDeepStrictEqual(await countsOf(at(ring, 0), limit), before)
    await waitUntil(isSame)
    expect(at(ring, 2).ringStats().handedOver.received).toBeGreaterThan(0)
    expect(total(ring)).toBe(40)
  })

  test.each(LIMITS)('of a %s stay when their member leaves', async (_, limit) => {
    const ring = await ringOf(['a', 'b', 'c'])
    const before = await countAll(ring, limit)
    await at(ring, 2).close()
    ring.remove('c')
    await ring.connected()
    expect(await countsOf(at(ring, 0), limit)).toEqual(before)
    expect(await countsOf(at(ring, 1), limit)).toEqual(before)
  })

  /** Takes 3 units of each of 40 counters, and returns what is left of each. */
  async function countAll(ring: TestRing, limit: Limit): Promise<readonly number[]> {
    for (let n = 0; n < 40; n++) await granted(at(ring, n % 2), [take(n, limit, 3)])
    return countsOf(at(ring, 0), limit)
  }

  const countsOf = (store: RingStore, limit: Limit) =>
    Promise.all(Array.from({ length: 40 }, (_, n) => remaining(store, n, limit)))

  const total = (ring: TestRing) =>
    ring.stores.reduce((sum, store) => sum + (store.health().memory?.counters ?? 0), 0)

  test('are full again for the callers of a member that crashed, and for no others', async () => {
    const ring = await ringOf(['a', 'b', 'c'])
    const members = ['a', 'b', 'c']
    const [kept, lost] = [ownedBy('a', members), ownedBy('c', members)]
    await granted(at(ring, 0), [take(kept, window, 60), take(lost, window, 60)])
    const crashed = at(ring, 2)
    ring.remove('c')
    expect(await remaining(at(ring, 1), kept)).toBe(40)
    expect(await remaining(at(ring, 1), lost)).toBe(100)
    await crashed.close()
  })

  test('that a deputy kept for a silent owner are added to what the owner has', async () => {
    const ring = await ringOf(['a', 'b'])
    const n = ownedBy('b', ['a', 'b'])
    await granted(at(ring, 0), [take(n, window, 30)])
    ring.cut('b')
    await waitUntil(async () => (await granted(at(ring, 0), [take(n, window, 5)]))[0] === 5)
    expect(await remaining(at(ring, 0), n)).toBe(95)
    expect(await remaining(at(ring, 1), n)).toBe(70)
    ring.heal('b')
    await ring.connected()
    await waitUntil(async () => (await remaining(at(ring, 1), n)) === 65)
    expect(await remaining(at(ring, 0), n)).toBe(65)
    await waitUntil(() => at(ring, 0).ringStats().misplaced === 0)
    expect(at(ring, 0).ringStats().handedOver.sent).toBe(1)
  })

  test('that were restored from a snapshot go to their owners', async () => {
    const ring = await ringOf(['a'])
    const takes = Array.from({ length: 20 }, (_, n) => ({ ...take(n, window, 7), durable: true }))
    for (const each of takes) await granted(at(ring, 0), [each])
    const snapshot = at(ring, 0).snapshot()
    const other = await ringOf(['a', 'b'])
    expect(at(other, 0).restore(snapshot)).toBe(20)
    await waitUntil(() => at(other, 1).ringStats().handedOver.received > 0)
    for (let n = 0; n < 20; n++) expect(await remaining(at(other, n % 2), n)).toBe(93)
    const restored = [at(other, 0), at(other, 1)].map((store) => store.snapshot().length)
    expect(restored[0]).toBeLessThan(snapshot.length)
    expect(restored[1]).toBeLessThan(snapshot.length)
  })

  test('that were restored from a snapshot are added to those that came before it', async () => {
    const before = await ringOf(['b'])
    await granted(at(before, 0), [{ ...take(1, window, 60), durable: true }])
    const snapshot = at(before, 0).snapshot()
    const ring = await ringOf(['b'])
    await granted(at(ring, 0), [{ ...take(1, window, 5), durable: true }])
    expect(at(ring, 0).restore(snapshot)).toBe(1)
    expect(await remaining(at(ring, 0), 1)).toBe(35)
  })
})

describe('the socket of a member', () => {
  test('can be opened by its user only, replaces one that was left behind, and closes what is no request', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-ring-'))
    const path = join(folder, 'a.sock')
    const problems: string[] = []
    const serve = () =>
      startPeerServer({
        listen: { path },
        run: ([name]) => Buffer.from(String(name)),
        onProblem: (message) => void problems.push(message),
      })
    const leftBehind = serve()
    await leftBehind.listening
    const server = serve()
    await server.listening
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(await exchange(path, '*1\r\n$4\r\nPING\r\n*1\r\n$2\r\nHI\r\nhello\r\n')).toBe(
      '$4\r\nPING\r\n$2\r\nHI\r\n',
    )
    expect(problems).toEqual(['A peer was disconnected: Bytes that are no request'])
    await Promise.all([server.close(), leftBehind.close()])
    rmSync(folder, { recursive: true, force: true })
  })

  test('is closed at once while something that is connected has not proved who it is', async () => {
    const server = startPeerServer({
      listen: { host: '127.0.0.1', port: 0 },
      tls: { ca: '', cert: '', key: '' },
      run: () => Buffer.from(''),
      onProblem: () => {},
    })
    const socket = connect((await server.listening) ?? 0, '127.0.0.1')
    socket.on('error', () => {})
    await new Promise((resolve) => {
      socket.once('connect', resolve)
    })
    const closed = new Promise((resolve) => {
      socket.once('close', resolve)
    })
    await server.close()
    await closed
  })

  /** Sends bytes, and returns what came until the connection was closed. */
  function exchange(path: string, text: string): Promise<string> {
    return new Promise((resolve) => {
      let received = ''
      const socket = connect(path, () => socket.write(text))
      socket.on('data', (chunk: Buffer) => (received += chunk.toString()))
      socket.on('error', () => {})
      socket.on('close', () => resolve(received))
    })
  }
})
