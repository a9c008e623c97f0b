/**
 * Names and values in Redis against the golden sets of `conformance/formats`: every set stays
 * readable for ever, and what is written now has the form of the newest.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Log, shortenLog } from '@sluice/core'
import { FORMAT_SETS, NEWEST_SET, readSetFile } from '../../../../../tools/formats/sets.js'
import {
  type DumpedKey,
  type DumpFile,
  dumpKeys,
  type KeysFile,
  leftOf,
  loadKeys,
  namesOf,
  openFormatLimiter,
  playCounters,
} from './format-counters.test-helper.js'
import { storeKeys } from './redis-keys.js'
import { PARTITION_TAGS } from '../request/partitions.js'
import { fingerprintOf } from '../server/hash-secret.js'
import {
  FORMAT_CASES,
  formatLimit,
  type FormatResult,
  peekFormat,
  playFormatCase,
  writeFormat,
} from './format-cases.test-helper.js'
import { type BatchRedis, LAYOUTS, startBatchRedis } from './redis.test-helper.js'

let redis: BatchRedis
beforeAll(async () => {
  redis = await startBatchRedis()
})
beforeEach(() => redis.client.flushall())
afterAll(() => redis.stop())

const valuesOf = (set: string) => readSetFile<readonly FormatResult[]>(set, 'redis-values.json')
const dumpOf = (set: string, layout: string) => readSetFile<DumpFile>(set, `redis-${layout}.json`)
const keysOf = (set: string) => readSetFile<KeysFile>(set, 'redis-keys.json')

/**
 * The bytes of a value without those for the expiry of its key, which depend on the TTL and not on
 * the encoding of a state.
 */
const withoutKept = (hex: string) => `${hex.slice(0, 2)}--------${hex.slice(10)}`

/**
 * A state as a store shows it: the short form of a long log, although all its bytes are compared.
 */
const shown = ({ state, limit }: Pick<FormatResult, 'state' | 'limit'>) =>
  limit.algorithm === 'sliding-window-log' && state !== null ? shortenLog(state as Log) : state

test('a golden set exists for every format', () => {
  expect(FORMAT_SETS).toContain('0.1.0')
  // The first with blocks and windows that begin with a call.
  expect(FORMAT_SETS).toContain('0.2.0')
  // The first with calendar windows and places.
  expect(FORMAT_SETS).toContain('0.3.0')
})

describe.each(FORMAT_SETS)('the golden set %s', (set) => {
  describe.each(LAYOUTS)('in the %s layout', (layout) => {
    test.each(valuesOf(set))('the bytes decode to their state: $name', async (golden) => {
      const { key, readAt, remaining, resetAfterMs } = golden
      const limit = formatLimit(golden.limit)
      await writeFormat(redis, layout, key, limit, golden[layout])
      const peeked = await peekFormat(redis, layout, key, limit, readAt)
      expect(peeked).toEqual({ state: shown(golden), remaining, resetAfterMs })
    })

    test('a limiter on the dumped Redis sees what every caller had used', async () => {
      const dump = dumpOf(set, layout)
      await loadKeys(redis.server, dump.keys)
      const { limiter, store } = await openFormatLimiter(redis.server.url, dump)
      try {
        const callers = dump.left.map(({ attributes }) => attributes)
        expect(await leftOf(limiter, callers)).toEqual(dump.left)
        // The nodes that were alive when the dump was made are gone.
        expect(store.remote.fleetSize()).toBe(1)
      } finally {
        await limiter.close()
      }
    })

    test('a counter of every rule and caller has the same name', async () => {
      const { rules, counters, prefix } = keysOf(set)
      const dump = dumpOf(set, layout)
      await loadKeys(redis.server, dump.keys)
      const { limiter } = await openFormatLimiter(redis.server.url, { ...dump, rules, prefix })
      try {
        const callers = dump.left.map(({ attributes }) => attributes)
        expect(await namesOf(limiter, rules, callers)).toEqual(counters[layout])
      } finally {
        await limiter.close()
      }
    })
  })

  test('a prefix has the same partitions and the same other keys', () => {
    const { prefix, secret, fingerprint, tags, others } = keysOf(set)
    expect(PARTITION_TAGS).toEqual(tags)
    expect(storeKeys(prefix)).toEqual(others)
    expect(fingerprintOf(Buffer.from(secret, 'hex'))).toBe(fingerprint)
  })

  test('a node reads the snapshots that a node of that release posts', async () => {
    const dump = dumpOf(set, 'plain')
    const { members, posted } = postedIn(dump.keys, dump.prefix)
    await loadKeys(redis.server, dump.keys)
    // The node is still alive: its last heartbeat was just now.
    const expires = String(Date.now() + 600_000)
    for (const member of members) {
      await redis.server.call('ZADD', storeKeys(dump.prefix).fleet, expires, member)
    }
    const { limiter, store } = await openFormatLimiter(redis.server.url, dump)
    try {
      expect(await store.exchange.read()).toContain(posted)
    } finally {
      await limiter.close()
    }
  })
})

describe('the format written now', () => {
  const goldens = new Map(valuesOf(NEWEST_SET).map((golden) => [golden.name, golden]))

  test('matches the newest set case by case, in both directions', () => {
    expect(FORMAT_CASES.map(({ name }) => name)).toEqual([...goldens.keys()])
  })

  test.each(FORMAT_CASES)('$name', async (each) => {
    const golden = goldens.get(each.name)
    if (golden === undefined) throw new Error(`${NEWEST_SET} has no "${each.name}"`)
    const played = await playFormatCase(redis, each, golden.key)
    for (const layout of LAYOUTS) {
      expect(withoutKept(played[layout]), layout).toBe(withoutKept(golden[layout]))
    }
    expect(played.state).toEqual(shown(golden))
  })

  test.each(LAYOUTS)('leaves the same keys in the %s layout', async (layout) => {
    const { dump, names } = await playCounters(redis.server, layout)
    const golden = dumpOf(NEWEST_SET, layout)
    expect(names).toEqual(keysOf(NEWEST_SET).counters[layout])
    expect(dump.left).toEqual(golden.left)
    expect(dump.keys.map(formOf)).toEqual(golden.keys.map(formOf))
    expect(await dumpKeys(redis.server)).not.toEqual([])
  })
})

/** A key without the parts that differ at each start: the id of a node, and times. */
function formOf(dumped: DumpedKey): unknown {
  const key = dumped.key.replace(/board:[0-9a-f]{16}$/, 'board:NODE')
  if (dumped.type === 'zset') {
    return { key, type: dumped.type, members: dumped.members.map(([node]) => node.length) }
  }
  if (dumped.type === 'hash') {
    const fields = dumped.fields.map(([field, value]) => [field, withoutKept(value)])
    return { key, type: dumped.type, fields }
  }
  const isCounter = !key.includes('{home}')
  return { key, type: dumped.type, value: isCounter ? withoutKept(dumped.value) : dumped.value }
}

/** The live nodes, and the snapshot of one of them. */
function postedIn(keys: readonly DumpedKey[], prefix: string) {
  const fleet = keys.find(({ key }) => key === storeKeys(prefix).fleet)
  const board = keys.find(({ key }) => key.includes(':board:'))
  if (fleet?.type !== 'zset' || board?.type !== 'string') throw new Error('no fleet, or no board')
  return {
    members: fleet.members.map(([node]) => node),
    posted: Buffer.from(board.value, 'hex').toString(),
  }
}
