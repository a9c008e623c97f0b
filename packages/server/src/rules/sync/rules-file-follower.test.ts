import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseRules } from '@sluice/core'
import { createLimiter, RulesError } from '@sluice/limiter'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createMemoryLog } from '../../observability/log/memory-log.test-helper.js'
import type { RuleFollower } from './rule-follower.js'
import { followRulesFile } from './rules-file-follower.js'

let directory: string
let file: string
const opened: { close(): Promise<void> }[] = []
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'sluice-rules-file-'))
  file = join(directory, 'rules.yaml')
})
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close()
  rmSync(directory, { recursive: true })
})

const FIRST = `
routes: [GET /v1/orders/:id]
rules:
  - id: a
    by: user
    limits: [10/second]
    candidate: { limits: [5/second] }
    overrides:
      - { caller: { user: 7 }, limits: [50/second], until: '2030-01-01T00:00:00Z' }
      - { caller: { user: 'a,b' }, limits: [] }
  - { id: b, by: [plan], limits: [20/second] }
`

function follow(text: string) {
  writeFileSync(file, text)
  const memory = createMemoryLog()
  const limiter = createLimiter({ rules: [] })
  const clock = { now: () => 0 }
  const rules = { file, text, parsed: parseRules(text, { file }) }
  const follower: RuleFollower = followRulesFile(rules, { limiter, log: memory.log, clock })
  opened.push(follower, limiter)
  const decide = (attributes: Readonly<Record<string, string>>) => limiter.peek({ attributes })
  const limitOf = async (user: string) => (await decide({ user })).limit
  return { ...memory, follower, decide, limitOf }
}

describe('a rules file', () => {
  test('the fields of a set in a file are active, and in the catalog as written', async () => {
    const { follower, decide } = follow(`
priorities: [critical, reads]
classify: [{ match: { path: /pay }, as: critical }]
shed: { loop: 50ms, mode: off }
rules: [{ id: fleet, by: [], limits: [10/second], headroom: { critical: 20% } }]
`)
    expect(await decide({ path: '/pay' })).toMatchObject({ priority: 'critical', limit: 10 })
    expect(await decide({ path: '/' })).toMatchObject({ priority: 'reads', limit: 8 })
    expect(follower.catalog.set).toMatchObject({
      priorities: ['critical', 'reads'],
      classify: [{ match: { path: '/pay' }, as: 'critical' }],
      shed: { loop: '50ms', mode: 'off' },
    })
  })

  test('the rules of a file are active at once, and cannot be changed elsewhere', async () => {
    const { follower, limitOf } = follow(FIRST)
    expect(follower.isReady()).toBe(true)
    expect(follower.version()).toBe(1)
    expect(follower.store).toBeUndefined()
    expect(follower.status()).toBeUndefined()
    expect(await limitOf('7')).toBe(50)
    expect(await limitOf('8')).toBe(10)
    await follower.refresh(1)
    await expect(follower.refresh(2)).rejects.toThrow('version 2 is not active')
  })

  test('the catalog lists the rules of the file', () => {
    const { catalog } = follow(FIRST).follower
    expect(catalog.set).toEqual({
      routes: ['GET /v1/orders/:id'],
      strictPaths: false,
      order: ['a', 'b'],
    })
    expect(catalog.rules()).toEqual([
      {
        document: { id: 'a', by: 'user', limits: ['10/second'] },
        candidate: { limits: ['5/second'] },
        version: 1,
        overrideCount: 2,
      },
      {
        document: { id: 'b', by: ['plan'], limits: ['20/second'] },
        candidate: undefined,
        version: 1,
        overrideCount: 0,
      },
    ])
    expect(catalog.overrides('a', undefined, 10)).toEqual([
      {
        id: 'user=7',
        document: { caller: { user: '7' }, limits: ['50/second'], until: '2030-01-01T00:00:00Z' },
        version: 1,
      },
      { id: 'user=a%2Cb', document: { caller: { user: 'a,b' }, limits: [] }, version: 1 },
    ])
    expect(catalog.tokens()).toEqual([])
  })

  test('a rules file may be a plain list of rules', () => {
    const { catalog } = follow('- { id: a, limits: [1/second] }').follower
    expect(catalog.rules()).toMatchObject([{ document: { id: 'a', limits: ['1/second'] } }])
  })

  test('a rules file with errors is refused at the start', () => {
    expect(() => follow('rules: [{ id: a }]')).toThrow(RulesError)
  })

  test('a file that cannot be listed is active anyway, with a warning', async () => {
    const { follower, lines, limitOf } = follow(
      'rules: [{ id: a, by: user, limits: [{ max: 1e2, window: 1s }] }]',
    )
    expect(await limitOf('u')).toBe(100)
    expect(follower.catalog.rules()).toEqual([])
    expect(lines[0]).toMatchObject({ level: 'warn', problem: expect.stringContaining('1e2') })
  })
})

describe('changes of a rules file', () => {
  test('a changed file is active soon, and unchanged rules keep their version and object', async () => {
    const { follower } = follow(FIRST)
    const before = follower.catalog.rules()
    writeFileSync(file, FIRST.replace('20/second', '30/second'))
    await vi.waitFor(() => expect(follower.version()).toBe(2), WAIT)
    const [a, b] = follower.catalog.rules()
    expect(a?.version).toBe(1)
    expect(a?.document).toBe(before[0]?.document)
    expect(b).toMatchObject({ version: 2, document: { limits: ['30/second'] } })
    expect(follower.catalog.rulesVersion).toBe(2)
    expect(follower.catalog.position?.version).toBe(2)
  })

  test('a change to invalid rules replaces nothing, and the first problem is reported', async () => {
    const { follower, limitOf } = follow(FIRST)
    writeFileSync(file, 'rules: [{ id: a, limits: [10/fortnight] }]')
    await vi.waitFor(() => expect(follower.failures()).toBe(1), WAIT)
    expect(follower.version()).toBe(1)
    expect(follower.problem()).toContain('10/fortnight')
    expect(await limitOf('8')).toBe(10)
    expect(follower.catalog.rules()).toHaveLength(2)
    writeFileSync(file, FIRST)
    await vi.waitFor(() => expect(follower.problem()).toBeUndefined(), WAIT)
    expect(follower.ageSeconds()).toBe(0)
    expect(follower.version()).toBe(1)
  })

  test('a symbolic link that points to another file is followed', async () => {
    const [one, two] = [join(directory, 'one.yaml'), join(directory, 'two.yaml')]
    const { follower, limitOf } = follow(FIRST)
    writeFileSync(one, FIRST)
    writeFileSync(two, FIRST.replace('10/second', '15/second'))
    symlinkSync(one, `${file}.link`)
    renameSync(`${file}.link`, file)
    symlinkSync(two, `${file}.link`)
    renameSync(`${file}.link`, file)
    await vi.waitFor(() => expect(follower.version()).toBe(2), WAIT)
    expect(await limitOf('8')).toBe(15)
  })
})

describe('changes of a rules file that weaken protection', () => {
  const TWO = 'rules: [{ id: a, limits: [1/second] }, { id: b, limits: [2/second] }]'

  async function change(to: string) {
    const { follower, lines } = follow(TWO)
    expect(lines).toEqual([])
    writeFileSync(file, to)
    await vi.waitFor(() => expect(follower.version()).toBe(2), WAIT)
    await follower.refresh(2)
    const warned = lines.filter(({ level }) => level === 'warn')
    const changed = lines.find(({ msg }) => msg === 'rules changed')
    return { warned, what: changed?.['what'] }
  }

  test('a file without rules logs every rule that was removed, and that every call is allowed', async () => {
    const { warned, what } = await change('rules: []')
    expect(warned).toMatchObject([
      { file, version: 2, msg: 'no rules: every call is allowed' },
      { file, version: 2, rule: 'a', msg: 'enforced rule removed' },
      { file, version: 2, rule: 'b', msg: 'enforced rule removed' },
    ])
    expect(what).toEqual(['set changed', 'rule a removed', 'rule b removed'])
  })

  test('a rule that is switched off and one whose posture becomes open are logged', async () => {
    const off = TWO.replace('[1/second]', '[1/second], mode: off')
    const { warned, what } = await change(off.replace('[2/second]', '[2/second], posture: open'))
    expect(warned).toMatchObject([
      { rule: 'a', msg: 'rule no longer enforced: mode is now off' },
      {
        rule: 'b',
        msg: 'rule now fails open: every call is allowed while the store does not answer',
      },
    ])
    expect(what).toEqual(['rule a changed', 'rule b changed'])
  })

  test('of a large set twenty rules are named, and the others counted', async () => {
    const ids = Array.from({ length: 50 }, (_, index) => `r${index}`)
    const text = (mode: string) =>
      JSON.stringify({ rules: ids.map((id) => ({ id, limits: ['1/second'], mode })) })
    const { follower, lines } = follow(text('enforce'))
    writeFileSync(file, text('shadow'))
    await vi.waitFor(() => expect(follower.version()).toBe(2), WAIT)
    const warned = lines.filter(({ level }) => level === 'warn')
    expect(warned).toHaveLength(21)
    expect(warned.at(-1)).toMatchObject({ more: 30, msg: 'more rules were weakened' })
  })

  test('a change that makes limits tighter logs no warning', async () => {
    const { warned } = await change(TWO.replace('2/second', '1/second'))
    expect(warned).toEqual([])
  })
})

test('a file without rules logs a warning at the start', () => {
  const { lines } = follow('rules: []')
  expect(lines).toMatchObject([{ level: 'warn', msg: 'no rules: every call is allowed' }])
})

const WAIT = { timeout: 10_000, interval: 20 }
