import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { networkCode } from '../identity/cidr.js'
import type { Hash64 } from '../sip-hash.js'
import { CompiledOverride, OverrideIndex, type Removal } from './override-index.js'
import { propertyRuns } from '../../../../tools/property-runs.js'

interface OverrideSpec {
  readonly hash: Hash64
  readonly writtenCaller: string
  readonly untilMs: number
}

/** `hash` replaces the hash of the caller's values, so that tests can make callers collide. */
function override(
  { hash, writtenCaller, untilMs }: OverrideSpec,
  isStandalone: boolean,
  tag = 0,
): CompiledOverride {
  return new CompiledOverride(hash, {
    // Two spellings of one caller differ in case.
    caller: [writtenCaller.toLowerCase()],
    network: undefined,
    limits: [],
    untilMs,
    isStandalone,
    writtenCaller: [writtenCaller],
    specs: [{ algorithm: 'token-bucket', max: tag, windowMs: 1000 }],
  })
}

const summaryOf = (index: OverrideIndex) =>
  index
    .all()
    .map(({ writtenCaller, isStandalone, untilMs, specs }) =>
      [writtenCaller[0], isStandalone, untilMs, specs[0]?.max].join(' '),
    )
    .toSorted()

/** In order of precedence. */
const writtenCallersOf = (index: OverrideIndex, hash: Hash64) =>
  index.allFor(hash).map(({ writtenCaller }) => writtenCaller[0])

const at = (hi: number, lo: number): Hash64 => ({ hi, lo })

describe('an index of overrides', () => {
  test('finds a caller by its whole hash, like its counters', () => {
    const near = override({ hash: at(1, 7), writtenCaller: 'a', untilMs: Infinity }, true)
    const index = OverrideIndex.EMPTY.with([near])
    expect(index.find(at(1, 7), 0)?.limits).toEqual([])
    expect(index.find(at(1, 8), 0)).toBeUndefined()
    expect(index.find(at(2, 7), 0)).toBeUndefined()
  })

  test('does not find callers added to a later index, although both share a filter', () => {
    const empty = OverrideIndex.EMPTY
    const one = empty.with([
      override({ hash: at(1, 7), writtenCaller: 'a', untilMs: Infinity }, true),
    ])
    const two = one.with([
      override({ hash: at(5, 9), writtenCaller: 'b', untilMs: Infinity }, true),
    ])
    expect(one.find(at(5, 9), 0)).toBeUndefined()
    expect(two.find(at(5, 9), 0)?.limits).toEqual([])
    expect(empty.find(at(1, 7), 0)).toBeUndefined()
  })

  test('rules out most networks by the filter, also after many additions', () => {
    const networks = Array.from({ length: 5000 }, (_, i) => {
      const code = networkCode({ version: 4, a: 0, b: 0, c: 0, d: i * 256 }, 24)
      const hash = at(i, Math.imul(i, 0x9e3779b1))
      const { caller, limits, specs } = override({ hash, writtenCaller: `n${i}`, untilMs: 0 }, true)
      const network = { version: 4, bits: 24, code } as const
      const fields = {
        caller,
        limits,
        specs,
        untilMs: 0,
        isStandalone: true,
        writtenCaller: caller,
      }
      return new CompiledOverride(hash, { ...fields, network })
    })
    const index = OverrideIndex.EMPTY.with(networks)
    const others = Array.from({ length: 5000 }, (_, i) =>
      networkCode({ version: 4, a: 0, b: 0, c: 0, d: (5000 + i) * 256 }, 24),
    )
    const mistaken = others.filter((code) => index.mayHaveNetwork(code)).length
    expect(mistaken).toBeLessThan(5000 / 4)
  })

  test('distinguishes callers that share a shard and its key by their hash', () => {
    const near = override({ hash: at(2, 7), writtenCaller: 'a', untilMs: Infinity }, true)
    const far = override({ hash: at(4, 7), writtenCaller: 'b', untilMs: Infinity }, true)
    const index = OverrideIndex.EMPTY.with([near, far])
    expect(index.allFor(at(4, 7)).map(({ writtenCaller }) => writtenCaller)).toEqual([['b']])
  })

  test('counts overrides that have an end', () => {
    const hash = at(1, 1)
    const ending = override({ hash, writtenCaller: 'a', untilMs: 9 }, true)
    const one = OverrideIndex.EMPTY.with([ending])
    expect([one.size, one.ending]).toEqual([1, 1])
    const endless = one.with([override({ hash, writtenCaller: 'a', untilMs: Infinity }, true)])
    expect([endless.size, endless.ending]).toEqual([1, 0])
    expect(one.with([{ hash, network: undefined, writtenCaller: ['a'] }]).size).toBe(0)
  })

  test('removes no override of the rule itself', () => {
    const hash = at(1, 1)
    const index = OverrideIndex.EMPTY.with([
      override({ hash, writtenCaller: 'a', untilMs: Infinity }, false),
      override({ hash, writtenCaller: 'a', untilMs: Infinity }, true),
    ])
    expect(summaryOf(index.with([{ hash, network: undefined, writtenCaller: ['a'] }]))).toEqual([
      'a false Infinity 0',
    ])
  })

  // Few hashes, so that callers collide; many callers, so that shards are split and merged.
  const name = fc.constantFrom('a', 'b', 'c', 'A', 'B', 'C')
  const crowd = fc
    .integer({ min: 0, max: 2000 })
    .map((i) => ({ hash: at(i, i % 5), name: `n${i}` }))
  const few = fc
    .record({ hi: fc.nat({ max: 2 }), name })
    .map(({ hi, name: letter }) => ({ hash: at(hi, 0), name: `${letter}${hi}` }))
  const step = fc.record({
    who: fc.oneof(few, crowd),
    untilMs: fc.constantFrom(10, Infinity),
    isRemoval: fc.boolean(),
    tag: fc.nat({ max: 3 }),
  })
  const batches = fc.array(fc.array(step, { maxLength: 40 }), { maxLength: 12 })

  test('equals a freshly built index after any changes, and earlier indexes never change', () => {
    fc.assert(
      fc.property(batches, fc.integer({ min: 0, max: 400 }), (list, load) => {
        const held = new Map<string, CompiledOverride>()
        const begin = Array.from({ length: load }, (_, i) =>
          override({ hash: at(i * 3, i), writtenCaller: `begin${i}`, untilMs: Infinity }, true),
        )
        for (const each of begin) held.set(keyOf(each, each.writtenCaller[0] ?? ''), each)
        const versions = [OverrideIndex.EMPTY.with(begin)]
        const summaries = versions.map(summaryOf)
        for (const batch of list) {
          const changes = batch.map(({ who, untilMs, isRemoval, tag }) => {
            const key = keyOf(who.hash, who.name)
            const removal: Removal = {
              hash: who.hash,
              network: undefined,
              writtenCaller: [who.name],
            }
            const set = override({ hash: who.hash, writtenCaller: who.name, untilMs }, true, tag)
            if (isRemoval) held.delete(key)
            else held.set(key, set)
            return isRemoval ? removal : set
          })
          const next = (versions.at(-1) ?? OverrideIndex.EMPTY).with(changes)
          versions.push(next)
          summaries.push(summaryOf(next))
        }
        const fresh = OverrideIndex.EMPTY.with([...held.values()].reverse())
        const last = versions.at(-1) ?? OverrideIndex.EMPTY
        expect(summaryOf(last)).toEqual(summaryOf(fresh))
        expect([last.size, last.ending]).toEqual([fresh.size, fresh.ending])
        for (const each of held.values())
          expect(writtenCallersOf(last, each)).toEqual(writtenCallersOf(fresh, each))
        expect(versions.map(summaryOf)).toEqual(summaries)
      }),
      { numRuns: propertyRuns(100) },
    )
  })
})

function keyOf({ hi, lo }: Hash64, writtenCaller: string): string {
  return `${hi}/${lo}/${writtenCaller}`
}
