import {
  lstatSync,
  renameSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { createLimiter } from '@sluice/limiter'
import { manualClock } from '@sluice/limiter/testing'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  closeAfterEach,
  decisionOf,
  loggedOf,
  makeFolder,
  readAll,
  readFolder,
  type DecisionInput,
  startLog,
  untilPacked,
} from './decision-log.test-helper.js'

closeAfterEach()

const START_MS = 1_760_000_000_000
const CALLER = { hi: 0x01234567, lo: 0x0abcdef0 }
const inputOf = (more: Partial<DecisionInput> = {}): DecisionInput => ({
  atMs: START_MS,
  rule: 'orders-per-user',
  caller: CALLER,
  cost: 1,
  outcome: 'allowed',
  source: 'store',
  ...more,
})
const linesOf = (file: string) => readFileSync(file, 'utf8').split('\n').slice(0, -1)

describe('a line', () => {
  test('has the time since the previous one, the rule number, caller, cost, outcome and source', async () => {
    const { log, file, record: write } = await startLog({ sample: 0.5 })
    const caller = { hi: -0x80000000, lo: 1 }
    write(inputOf({ caller }))
    write(
      inputOf({ caller, atMs: START_MS + 12, outcome: 'refused', source: 'deny-cache', cost: 250 }),
    )
    write(inputOf({ caller, atMs: START_MS + 12, rule: 'all', outcome: 'shadow_refused' }))
    await log.flush()
    expect(linesOf(file)).toEqual([
      '#sluice-decisions 1 1760000000000 sample=0.5',
      '=0 orders-per-user',
      '0\t0\t8000000000000001\t1\ta\ts',
      '12\t0\t8000000000000001\t250\tr\td',
      '=1 all',
      '0\t1\t8000000000000001\t1\ts\ts',
    ])
  })

  test('takes at most 30 bytes of a busy log', async () => {
    const { log, file, record: write } = await startLog()
    for (let i = 0; i < 10_000; i++) write(inputOf({ atMs: START_MS + i * 7 }))
    await log.flush()
    expect(statSync(file).size / 10_000).toBeLessThan(30)
  })

  test('has the cost that the rule counts, and is not written if that cannot be read', async () => {
    const { log, file } = await startLog()
    const limiter = createLimiter({
      rules: [
        { id: 'plain', by: ['user'], limits: ['100/minute'] },
        { id: 'dear', by: ['user'], limits: ['100/minute'], cost: 3 },
        { id: 'tokens', by: ['user'], limits: ['100/minute'], cost: { attribute: 'tokens' } },
        {
          id: 'unreadable',
          by: ['user'],
          limits: ['100/minute'],
          mode: 'shadow',
          cost: { attribute: 'words' },
        },
      ],
      clock: manualClock(),
    })
    const call = { attributes: { user: 'u', tokens: '42', words: 'many' }, cost: 2 }
    log.onDecision(limiter.checkSync(call), call)
    await log.flush()
    const costs = (await readAll(file)).map(({ rule, cost }) => [rule, cost])
    expect(costs).toEqual([
      ['plain', 2],
      ['dear', 6],
      ['tokens', 42],
    ])
  })

  test('is not written for a call without a matching rule', async () => {
    const { log, file, counts } = await startLog()
    log.onDecision(decisionOf(), { attributes: {} })
    await log.flush()
    expect(statSync(file).size).toBe(0)
    expect(counts()).toEqual({ lines: 0, dropped: 0 })
  })

  test('begins a new section after the clock was set back, but not after a small step', async () => {
    const { log, file, record: write } = await startLog()
    for (const atMs of [START_MS, START_MS - 900, START_MS - 5000, START_MS - 4990]) {
      write(inputOf({ atMs }))
    }
    await log.flush()
    expect((await readAll(file)).map(({ atMs }) => atMs - START_MS)).toEqual([0, 0, -5000, -4990])
  })
})

describe('sampling', () => {
  test('keeps all decisions of a caller or none, for about the configured share of callers', async () => {
    const { log, file, record: write } = await startLog({ sample: 0.25 })
    const random = (seed: number) => Math.imul(seed, 0x9e3779b1) ^ (seed << 7)
    for (let i = 0; i < 20_000; i++) {
      const caller = { hi: random(i % 4000), lo: i % 4000 }
      write(inputOf({ caller }))
    }
    await log.flush()
    const times = new Map<string, number>()
    for (const { caller } of await readAll(file)) times.set(caller, (times.get(caller) ?? 0) + 1)
    expect(new Set(times.values())).toEqual(new Set([5]))
    expect(times.size / 4000).toBeGreaterThan(0.22)
    expect(times.size / 4000).toBeLessThan(0.28)
  })

  test('at share 1 keeps callers with extreme hashes', async () => {
    const { log, file, record: write } = await startLog({ sample: 1 })
    for (const hi of [-(2 ** 31), -1, 0, 2 ** 31 - 1]) write(inputOf({ caller: { hi, lo: 0 } }))
    await log.flush()
    expect(await readAll(file)).toHaveLength(4)
  })
})

describe('the written log', () => {
  const saids = fc.array(
    fc.record({
      sinceMs: fc.oneof(fc.constant(0), fc.nat(5000), fc.nat(100_000_000)),
      rule: fc.constantFrom('a', 'orders-per-user', 'b'.repeat(64), 'c-1', 'd'),
      hi: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
      lo: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
      cost: fc.oneof(fc.nat(20), fc.maxSafeNat()),
      outcome: fc.constantFrom('allowed' as const, 'refused' as const, 'shadow_refused' as const),
      source: fc.constantFrom(...(['store', 'lease', 'local', 'deny-cache', 'posture'] as const)),
      flushes: fc.nat(9).map((n) => n === 0),
    }),
    { maxLength: 200 },
  )

  test('reads back the same, however often it was flushed and rotated', async () => {
    await fc.assert(
      fc.asyncProperty(saids, fc.integer({ min: 200, max: 4000 }), async (steps, maxBytes) => {
        const folder = makeFolder()
        const { log, counts, record: write } = await startLog({ folder, maxBytes, keep: 1000 })
        let atMs = START_MS
        const said = steps.map(({ sinceMs, hi, lo, flushes: _flushes, ...rest }) => {
          atMs += sinceMs
          return { ...rest, atMs, caller: { hi, lo } }
        })
        for (const [index, each] of said.entries()) {
          write(each)
          if (steps[index]?.flushes === true) await log.flush()
        }
        await log.flush()
        await log.close()
        expect(await readFolder(folder)).toEqual(said.map((each) => loggedOf(each)))
        expect(counts()).toEqual({ lines: said.length, dropped: 0 })
      }),
      { numRuns: 40 },
    )
  })

  test('continues in the same file after a restart, under a new head', async () => {
    const folder = makeFolder()
    const first = await startLog({ folder })
    first.record(inputOf())
    await first.log.close()
    const second = await startLog({ folder, sample: 0.5 })
    second.record(inputOf({ atMs: START_MS + 5000, caller: { hi: -5, lo: 0 } }))
    await second.log.close()
    expect((await readAll(second.file)).map(({ atMs, sample }) => [atMs, sample])).toEqual([
      [START_MS, 1],
      [START_MS + 5000, 0.5],
    ])
  })

  test('begins on a new line after a process that ended within a line', async () => {
    const folder = makeFolder()
    const first = await startLog({ folder })
    first.record(inputOf())
    first.record(inputOf({ cost: 2 }))
    await first.log.close()
    truncateSync(first.file, statSync(first.file).size - 7)
    const second = await startLog({ folder })
    second.record(inputOf({ cost: 3 }))
    await second.log.close()
    expect((await readAll(second.file)).map(({ cost }) => cost)).toEqual([1, 3])
  })
})

describe('log files', () => {
  test('are readable only by their owner, including compressed ones', async () => {
    const folder = makeFolder()
    const { log, record: write } = await startLog({ folder, maxBytes: 500 })
    for (let i = 0; i < 40; i++) write(inputOf())
    await log.flush()
    await log.close()
    const names = await untilPacked(folder)
    expect(names).toEqual(['decisions.log', 'decisions.log.1.gz', 'decisions.log.2.gz'])
    for (const name of names) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600)
  })

  test('are never written through a link, nor into a file that others may read', async () => {
    const folder = makeFolder()
    const other = join(makeFolder(), 'of-somebody-else')
    writeFileSync(other, 'precious')
    symlinkSync(other, join(folder, 'decisions.log.1.gz.draft'))
    const { log, file, record: write } = await startLog({ folder, maxBytes: 500 })
    for (let i = 0; i < 20; i++) write(inputOf())
    await log.flush()
    await log.close()
    await untilPacked(folder)
    expect(readFileSync(other, 'utf8')).toBe('precious')
    expect(lstatSync(`${file}.1.gz`).isFile()).toBe(true)
    writeFileSync(`${file}.1.gz.draft`, 'left behind', { mode: 0o644 })
    renameSync(file, `${file}.1`)
    await (await startLog({ folder })).log.close()
    await untilPacked(folder)
    expect(statSync(`${file}.1.gz`).mode & 0o777).toBe(0o600)
  })

  test('beyond the configured number are removed, the oldest first', async () => {
    const folder = makeFolder()
    const { log, record: write } = await startLog({ folder, maxBytes: 500, keep: 2 })
    for (let cost = 0; cost < 200; cost++) write(inputOf({ cost }))
    await log.flush()
    await log.close()
    const kept = (await readFolder(folder)).map(({ cost }) => cost)
    expect(await untilPacked(folder)).toHaveLength(3)
    expect(kept).toEqual(Array.from({ length: kept.length }, (_, i) => 200 - kept.length + i))
  })

  test('of an unfinished rotation are finished by the next process', async () => {
    const folder = makeFolder()
    const first = await startLog({ folder })
    first.record(inputOf())
    await first.log.close()
    renameSync(first.file, `${first.file}.1`)
    const second = await startLog({ folder })
    second.record(inputOf({ cost: 2 }))
    await second.log.close()
    expect(await untilPacked(folder)).toEqual(['decisions.log', 'decisions.log.1.gz'])
    expect((await readFolder(folder)).map(({ cost }) => cost)).toEqual([1, 2])
  })

  test('that were moved away get the lines begun for them, and a new file begins', async () => {
    const { log, file, record: write } = await startLog()
    write(inputOf())
    await log.flush()
    renameSync(file, `${file}.old`)
    write(inputOf({ cost: 2 }))
    await log.flush()
    write(inputOf({ cost: 3 }))
    await log.flush()
    expect((await readAll(`${file}.old`)).map(({ cost }) => cost)).toEqual([1, 2])
    expect((await readAll(file)).map(({ cost }) => cost)).toEqual([3])
  })

  test('that were truncated begin with a head again', async () => {
    const { log, file, record: write } = await startLog()
    write(inputOf())
    await log.flush()
    truncateSync(file, 0)
    await log.flush()
    write(inputOf({ cost: 2 }))
    await log.flush()
    expect((await readAll(file)).map(({ cost }) => cost)).toEqual([2])
  })

  test('of several processes have one suffix each', async () => {
    const folder = makeFolder()
    const { log, record: write } = await startLog({ folder, suffix: '.w2' })
    write(inputOf())
    await log.close()
    expect(readdirSync(folder)).toEqual(['decisions.log.w2'])
  })

  test('that cannot be opened are named in the error at startup', async () => {
    const folder = join(makeFolder(), 'missing')
    await expect(startLog({ folder })).rejects.toThrow(
      `decisionLog.file: ${folder}/decisions.log: found: it is gone (ENOENT); accepted: a file that this process may write to, in a folder that is there`,
    )
    const isFile = join(makeFolder(), 'file')
    writeFileSync(isFile, '')
    await expect(startLog({ folder: isFile })).rejects.toThrow('ENOTDIR')
    const parent = dirname(makeFolder())
    await expect(startLog({ folder: parent, file: parent })).rejects.toThrow('not a regular file')
  })
})

test('a closed log drops further lines and counts them', async () => {
  const { log, file, counts, record: write } = await startLog()
  write(inputOf())
  await log.close()
  await log.close()
  write(inputOf())
  expect(counts()).toEqual({ lines: 1, dropped: 1 })
  expect(await readAll(file)).toHaveLength(1)
})
