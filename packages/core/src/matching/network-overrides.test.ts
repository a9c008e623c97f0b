/** Tests overrides for the callers of a network. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseAddress } from '../identity/address.js'
import { cidrContains, parseCidr } from '../identity/cidr.js'
import { parseOverride } from '../rules/parse-override.js'
import { parseRules } from '../rules/parse-rules.js'
import type { Rule } from '../rules/rule.js'
import { sipKey } from '../sip-hash.js'
import { limitsOfCaller } from './caller-limits.js'
import { compileRules } from './compile.js'
import type { Snapshot } from './compiled.js'
import { matchRules } from './match.js'
import { changeOverrides, overrideLimitsOf, type OverrideChange } from './overrides.js'

const secret = sipKey(new Uint8Array(16))

function parse(rule: object): Rule {
  const { rules, errors } = parseRules([{ id: 'r', by: ['ip'], limits: ['1/second'], ...rule }])
  const [parsed] = rules?.rules ?? []
  if (parsed === undefined) throw new Error(errors.map(({ message }) => message).join('\n'))
  return parsed
}

const overrideOf = (caller: object, max: number, until?: string) => ({
  caller,
  limits: [`${max}/second`],
  ...(until === undefined ? {} : { until }),
})

const compile = (rule: Rule, ipv6Prefix = 64) =>
  compileRules({ routes: [], strictPaths: false, rules: [rule] }, { secret, ipv6Prefix })

/** A snapshot whose rule has these overrides, each with another limit. */
function withOverrides(overrides: Readonly<Record<string, number>>, ipv6Prefix = 64): Snapshot {
  const own = Object.entries(overrides).map(([ip, max]) => overrideOf({ ip }, max))
  return compile(parse({ overrides: own }), ipv6Prefix)
}

function change(rule: Rule, caller: object, max: number | undefined): OverrideChange {
  const { override } = parseOverride(rule, overrideOf(caller, max ?? 0))
  if (override === undefined) throw new Error('no override')
  return { rule: 'r', caller: override.caller, override: max === undefined ? undefined : override }
}

function maxOf(snapshot: Snapshot, attributes: object, wallMs = 0): number | undefined {
  const [matched] = matchRules(snapshot, { attributes: { ...attributes } }, wallMs)
  return matched?.limits[0]?.limit.max
}

describe('an override of a network', () => {
  test('applies to each caller in it, after the address itself and longer networks', () => {
    const snapshot = withOverrides({
      '10.0.0.0/8': 8,
      '10.1.0.0/16': 16,
      '10.1.2.3': 99,
      '203.0.113.7/32': 32,
      '2001:db8::/32': 6,
      '2001:db8:1::/48': 48,
      '2001:db8:1:2::/64': 64,
      '2001:db8:1:3::5/128': 128,
    })
    const ips = {
      '10.9.9.9': 8,
      '10.1.9.9': 16,
      '10.1.2.3': 99,
      '::ffff:10.1.2.3': 99,
      '::ffff:10.9.9.9': 8,
      '11.0.0.1': 1,
      '203.0.113.7': 32,
      '203.0.113.8': 1,
      '2001:db8:ffff::1': 6,
      '2001:db8:1::1': 48,
      '2001:db8:1:2:3::4': 64,
      '2001:db8:1:3::9': 128,
      '2001:db9::1': 1,
      nonsense: 1,
    }
    const found = Object.keys(ips).map((ip) => [ip, maxOf(snapshot, { ip })])
    expect(Object.fromEntries(found)).toEqual(ips)
  })

  test('keeps a separate counter per caller', () => {
    const snapshot = withOverrides({ '10.0.0.0/8': 8 })
    const callers = ['10.0.0.1', '10.0.0.2'].map((ip) => {
      return matchRules(snapshot, { attributes: { ip } })[0]?.caller
    })
    expect(callers[0]).not.toEqual(callers[1])
    const plain = matchRules(compile(parse({})), { attributes: { ip: '10.0.0.1' } })[0]
    expect(callers[0]).toEqual(plain?.caller)
  })

  test('with no limits lifts the limits of its callers', () => {
    const overrides = [{ caller: { ip: '10.0.0.0/8' }, limits: [] }]
    const snapshot = compile(parse({ overrides }))
    const [matched] = matchRules(snapshot, { attributes: { ip: '10.0.0.1' } })
    expect(matched?.limits).toEqual([])
    expect(matched?.override?.caller).toEqual(['10.0.0.0/8'])
  })

  test('that has ended is replaced by a wider one, and that by the limits of the rule', () => {
    const overrides = [
      overrideOf({ ip: '10.0.0.0/8' }, 8, '1970-01-01T00:00:10Z'),
      overrideOf({ ip: '10.1.0.0/16' }, 16, '1970-01-01T00:00:05Z'),
    ]
    const snapshot = compile(parse({ overrides }))
    const at = (ms: number) => maxOf(snapshot, { ip: '10.1.0.1' }, ms)
    expect([4999, 5000, 9999, 10_000].map(at)).toEqual([16, 8, 8, 1])
    expect(snapshot.needs.clock).toBe(true)
  })

  test('replaces only the address; other attributes are compared exactly', () => {
    const rule = parse({
      by: ['route', 'ip'],
      overrides: [
        overrideOf({ route: 'a', ip: '10.0.0.0/8' }, 8),
        overrideOf({ route: 'b', ip: '10.1.0.0/16' }, 16),
      ],
    })
    const snapshot = compile(rule)
    expect(maxOf(snapshot, { route: 'a', ip: '10.1.0.1' })).toBe(8)
    expect(maxOf(snapshot, { route: 'b', ip: '10.1.0.1' })).toBe(16)
    expect(maxOf(snapshot, { route: 'b', ip: '10.2.0.1' })).toBe(1)
    expect(maxOf(snapshot, { route: 'c', ip: '10.1.0.1' })).toBe(1)
  })

  test('does not apply to a caller that is already a wider network', () => {
    const snapshot = withOverrides({ '2001:db8::/56': 56, '2001:db8::/32': 6 })
    expect(maxOf(snapshot, { ip: '2001:db8::/48' })).toBe(6)
    expect(maxOf(snapshot, { ip: '2001:db8::/60' })).toBe(56)
  })

  test('of the IPv6 prefix length is for one caller, and a longer one for none', () => {
    const snapshot = withOverrides({ '2001:db8::/48': 48, '2001:db8:1::/64': 64 }, 48)
    expect(maxOf(snapshot, { ip: '2001:db8::1' })).toBe(48)
    expect(maxOf(snapshot, { ip: '2001:db8:1::1' })).toBe(1)
  })

  test('is shown by inspect and among the limits of its callers', () => {
    const snapshot = withOverrides({ '10.0.0.0/8': 8, '10.1.2.3': 99 })
    const [rule] = snapshot.rules
    if (rule === undefined) throw new Error('no rule')
    const placeOf = (ip: string) => {
      return limitsOfCaller(snapshot, rule, { attributes: { ip } }, 0).places[0]?.where
    }
    expect(['10.9.9.9', '10.1.2.3', '11.0.0.1'].map(placeOf)).toEqual([
      'override of 10.0.0.0/8',
      'override',
      'limits',
    ])
    const stranger = { hi: 1, lo: 2 }
    expect(overrideLimitsOf(snapshot, rule, stranger).map(({ limit }) => limit.max)).toEqual([8])
  })
})

describe('standalone overrides of networks', () => {
  test('are added and removed together with their network lengths', () => {
    const rule = parse({})
    const before = compile(rule)
    const both = changeOverrides(before, [
      change(rule, { ip: '10.0.0.0/8' }, 8),
      change(rule, { ip: '10.1.0.0/16' }, 16),
    ])
    expect(both.callers.map(({ isNetwork }) => isNetwork)).toEqual([true, true])
    expect(maxOf(both.snapshot, { ip: '10.1.0.1' })).toBe(16)
    expect(both.snapshot.overrides?.[0]?.networks).toEqual([
      { version: 4, bits: 16 },
      { version: 4, bits: 8 },
    ])
    const one = changeOverrides(both.snapshot, [change(rule, { ip: '10.1.0.0/16' }, undefined)])
    expect(one.callers.map(({ isNetwork }) => isNetwork)).toEqual([true])
    expect(maxOf(one.snapshot, { ip: '10.1.0.1' })).toBe(8)
    expect(one.snapshot.overrides?.[0]?.networks).toEqual([{ version: 4, bits: 8 }])
    const none = changeOverrides(one.snapshot, [change(rule, { ip: '10.0.0.0/8' }, undefined)])
    expect(none.snapshot.overrides).toBeUndefined()
    expect(maxOf(before, { ip: '10.1.0.1' })).toBe(1)
  })

  test('take precedence over those of the rule for the same network, not over longer ones', () => {
    const rule = parse({
      overrides: [overrideOf({ ip: '10.0.0.0/8' }, 8), overrideOf({ ip: '10.1.0.0/16' }, 16)],
    })
    const { snapshot } = changeOverrides(compile(rule), [change(rule, { ip: '10.0.0.0/8' }, 88)])
    expect(maxOf(snapshot, { ip: '10.2.0.1' })).toBe(88)
    expect(maxOf(snapshot, { ip: '10.1.0.1' })).toBe(16)
  })

  test('resolve to the longest network that contains the address, after any changes', () => {
    const bits = fc.integer({ min: 1, max: 32 })
    const word = fc.constantFrom(0x0a000000, 0x0a010000, 0x0a010203, 0xcb007107)
    const network = fc.tuple(word, bits).map(([address, length]) => {
      const masked = (address & (0xffffffff << (32 - length))) >>> 0
      const octets = [24, 16, 8, 0].map((shift) => (masked >>> shift) & 255)
      return `${octets.join('.')}/${length}`
    })
    const step = fc.record({ network, max: fc.option(fc.integer({ min: 2, max: 99 })) })
    const ip = fc.constantFrom('10.0.0.1', '10.1.2.3', '10.1.0.0', '203.0.113.7', '9.9.9.9')
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), fc.array(ip), (steps, ips) => {
        const rule = parse({})
        const all = new Map<string, number>()
        let snapshot = compile(rule)
        for (const { network: text, max } of steps) {
          const own = change(rule, { ip: text }, max ?? undefined)
          snapshot = changeOverrides(snapshot, [own]).snapshot
          if (max === null) all.delete(text)
          else all.set(text, max)
        }
        for (const each of ips) {
          expect(maxOf(snapshot, { ip: each })).toBe(longestOf(all, each) ?? 1)
        }
      }),
      { numRuns: 200 },
    )
  })
})

/** Reference implementation: compares every network. */
function longestOf(all: ReadonlyMap<string, number>, ip: string): number | undefined {
  const address = parseAddress(ip)
  let best = { bits: 0, max: undefined as number | undefined }
  for (const [text, max] of all) {
    const cidr = parseCidr(text)
    if ('problem' in cidr || address === undefined || !cidrContains(cidr, address)) continue
    if (cidr.bits > best.bits) best = { bits: cidr.bits, max }
  }
  return best.max
}
