import { describe, expect, test } from 'vitest'
import { callerHash, counterKey, limitSeed, PARTITIONS } from './key.js'
import { sipKey } from './sip-hash.js'

const secret = sipKey(Uint8Array.from({ length: 16 }, (_, i) => i * 17))
const text = (key: { hi: number; lo: number }) => `${key.hi}.${key.lo}`
const seed = (rule: string, name: string, candidate = false, by = ['user']) =>
  limitSeed(secret, { rule, name, candidate, by })

describe('a counter’s key', () => {
  test('differs by rule, limit, caller, and between a limit and its candidate', () => {
    const alice = callerHash(secret, ['alice'])
    const bob = callerHash(secret, ['bob'])
    const keys = [
      counterKey(alice, seed('a', 'x')),
      counterKey(alice, seed('b', 'x')),
      counterKey(alice, seed('a', 'y')),
      counterKey(alice, seed('a', 'x', true)),
      counterKey(alice, seed('ax', '')),
      counterKey(alice, seed('a', 'x', false, ['account'])),
      counterKey(bob, seed('a', 'x')),
    ]
    expect(new Set(keys.map(text)).size).toBe(keys.length)
  })

  test('does not collide for 200,000 adversarial callers', () => {
    const keys = new Set<string>()
    const limit = seed('r', 'l')
    for (let i = 0; i < 50_000; i++) {
      for (const values of [[`${i}`], [`${i}_`, ''], ['', `${i}_`], [`{${i}}`, ':']]) {
        keys.add(text(counterKey(callerHash(secret, values), limit)))
      }
    }
    expect(keys.size).toBe(200_000)
  })

  test('is in a partition chosen by the caller alone, and callers spread evenly over all partitions', () => {
    const counts = Array.from({ length: PARTITIONS }, () => 0)
    for (let i = 0; i < 128_000; i++) {
      const caller = callerHash(secret, [`{x}${i}`])
      const { partition } = counterKey(caller, seed('a', 'x'))
      const other = counterKey(caller, seed('b', 'y')).partition
      // An expectation takes longer than a hash, so it is made only where it fails.
      if (other !== partition) expect(other).toBe(partition)
      counts[partition] = (counts[partition] ?? 0) + 1
    }
    expect(Math.min(...counts)).toBeGreaterThan(850)
    expect(Math.max(...counts)).toBeLessThan(1150)
  })
})
