import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseRules } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { cleanAfterTests, sluice, tempFile } from '../cli.test-helper.js'

cleanAfterTests()

const FIXTURES = fileURLToPath(new URL('../../../../conformance/envoy/', import.meta.url))

/** Returns the path of a directory with these files. */
function tempFolder(files: Readonly<Record<string, string>>): string {
  const folder = join(dirname(tempFile('unused', '')), 'config')
  mkdirSync(folder)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return folder
}

const SHOP = `domain: shop
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: user
    value: gold
    metadata: { a: b }
    rate_limit: { unit: minute, requests_per_unit: 50 }
  - key: files
    value: files/*
    rate_limit: { unit: minute, requests_per_unit: 1 }
  - key: free
    rate_limit: { unlimited: true }
`
const TEAM = `domain: team
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 5 }
`

describe('sluice rules validate --from envoy', () => {
  test('a valid directory exits 0 and says what it has', async () => {
    const folder = tempFolder({ 'shop.yaml': SHOP, 'team.yaml': TEAM, 'team.yaml~': 'old' })
    const ran = await sluice(['rules', 'validate', '--from', 'envoy', folder])
    expect(ran).toMatchObject({
      code: 0,
      out: '2 files, 2 domains, 5 limits, no errors.\n',
      err: `${folder}/team.yaml~: left out\n`,
    })
  })

  test('the good configurations of the conformance data are valid, with warnings', async () => {
    const words = ['rules', 'validate', '--from', 'envoy', join(FIXTURES, 'good')]
    const ran = await sluice(words)
    expect(ran.code).toBe(0)
    expect(ran.err).toContain('unit: found a key that has no effect here')
    expect(await sluice([...words, '--strict'])).toMatchObject({ code: 1, out: '' })
  })

  test('errors of all files exit 1, one per line with its place', async () => {
    const folder = tempFolder({
      'a.yaml': 'domain: a\ndescriptor: []\n',
      'b.yaml': SHOP,
      'c.yaml': SHOP,
    })
    const ran = await sluice(['rules', 'validate', '--from', 'envoy', folder])
    expect(ran).toMatchObject({ code: 1, out: '' })
    expect(ran.err.split('\n')).toEqual([
      `${folder}/a.yaml:2:1: descriptor: unknown key "descriptor"; did you mean "descriptors"? Accepted: domain, descriptors`,
      expect.stringContaining(`${folder}/c.yaml:1:9: domain: "shop" is given twice`),
      '',
    ])
  })

  test('a domain in several files is valid only with merged domains', async () => {
    const words = ['rules', 'validate', '--from', 'envoy', join(FIXTURES, 'merged')]
    expect((await sluice(words)).code).toBe(1)
    expect(await sluice([...words, '--merge-domains'])).toMatchObject({
      code: 0,
      out: '2 files, 1 domain, 4 limits, no errors.\n',
    })
  })

  test('JSON has files, domains with their limits, and problems', async () => {
    const folder = tempFolder({ 'shop.yaml': SHOP })
    const ran = await sluice(['rules', 'validate', '--from', 'envoy', folder, '--json'])
    expect(JSON.parse(ran.out)).toEqual({
      valid: true,
      files: [`${folder}/shop.yaml`],
      skipped: [],
      domains: [{ domain: 'shop', limits: 4 }],
      errors: [],
      warnings: [],
    })
  })

  test.each([
    [['--from', 'envoy'], '--from envoy: found no directory; accepted: one with YAML files\n'],
    [['--from', 'kong', '.'], '--from: found "kong"; accepted: envoy\n'],
    [[], 'found neither; accepted: -f <file>, or --from envoy <directory>\n'],
    [
      ['-f', 'rules.yaml', '--from', 'envoy', '.'],
      'found more than that; accepted: -f <file>, or --from envoy <directory>\n',
    ],
    [
      ['--from', 'envoy', '/nonexistent/config'],
      '/nonexistent/config: there is no such file or directory\n',
    ],
  ])('the misuse %j exits 2', async (words, err) => {
    expect(await sluice(['rules', 'validate', ...words])).toMatchObject({ code: 2, err })
  })
})

describe('sluice rules import --from envoy', () => {
  test('prints rules that load, with comments for what has none', async () => {
    const folder = tempFolder({ 'shop.yaml': SHOP })
    const ran = await sluice(['rules', 'import', '--from', 'envoy', folder])
    expect(ran.code).toBe(1)
    expect(ran.err).toBe('2 rules, 1 limit not imported.\nThe comments in the rules say why.\n')
    expect(ran.out).toBe(`# Imported from a configuration of envoyproxy/ratelimit.
# Each rule is equal to the limit of its descriptor for requests whose keys are nested as that
# configuration nests them, and have values. What a limit refuses takes nothing from it here.
#
# Not imported:
# - shop.files_files/*: the pattern "files_files/*": rules have no patterns
#
# Imported without:
# - shop.user_gold: metadata: rules have none
#
# Unlimited, so without a rule:
# - shop.free
rules:
  - id: shop-user
    description: Imported from shop.user
    match:
      where:
        domain: [shop]
        user:
          not: [gold]
    by: [user]
    limits:
      - algorithm: fixed-window
        max: 5
        window: 1m
  - id: shop-user-gold
    description: Imported from shop.user_gold
    match:
      where:
        domain: [shop]
        user: [gold]
    by: []
    limits:
      - algorithm: fixed-window
        max: 50
        window: 1m
`)
    expect(parseRules(ran.out).errors).toEqual([])
  })

  test('one domain, to a file, exits 0 when all of it has rules', async () => {
    const folder = tempFolder({ 'shop.yaml': SHOP, 'team.yaml': TEAM })
    const file = tempFile('rules.yaml', '')
    const words = ['rules', 'import', '--from', 'envoy', folder, '--domain', 'team', '-o', file]
    const ran = await sluice(words)
    expect(ran).toMatchObject({ code: 0, out: '', err: '1 rule, 0 limits not imported.\n' })
    const { rules } = parseRules(readFileSync(file, 'utf8'))
    expect(rules?.rules.map(({ id }) => id)).toEqual(['team-user'])
  })

  test('JSON has the rules and the notes', async () => {
    const folder = tempFolder({ 'shop.yaml': SHOP })
    const ran = await sluice(['rules', 'import', '--from', 'envoy', folder, '--json'])
    const { rules, notes } = JSON.parse(ran.out)
    expect(parseRules({ rules }).errors).toEqual([])
    expect(notes).toContainEqual({
      path: 'shop.files_files/*',
      kind: 'skipped',
      reasons: ['the pattern "files_files/*": rules have no patterns'],
    })
  })

  test('a configuration with errors is not imported at all', async () => {
    const folder = tempFolder({ 'a.yaml': SHOP, 'b.yaml': 'domain: ""' })
    const ran = await sluice(['rules', 'import', '--from', 'envoy', folder])
    expect(ran).toMatchObject({ code: 1, out: '' })
    expect(ran.err).toContain('b.yaml:1:9: domain: found "". Accepted: the name of the domain\n')
    expect(ran.err).toContain('Nothing was imported.\n')
  })

  test('more limits than one call may meet are not imported, and the reason is given', async () => {
    const keys = Array.from({ length: 65 }, (_, index) => `k${index}`)
    const limit = '{ unit: minute, requests_per_unit: 5 }'
    const lines = keys.map((key) => `  - { key: ${key}, rate_limit: ${limit} }`)
    const folder = tempFolder({ 'a.yaml': `domain: d\ndescriptors:\n${lines.join('\n')}\n` })
    const ran = await sluice(['rules', 'import', '--from', 'envoy', folder])
    expect(ran).toMatchObject({ code: 1, out: '' })
    expect(ran.err).toContain('one call could meet')
    expect(ran.err).toContain('Nothing was imported.\n')
  })

  test('a name cannot leave its comment', async () => {
    const text =
      'domain: d\ndescriptors:\n  - { key: "a\\u2028- id: x", value: "*", rate_limit: { unlimited: true } }'
    const ran = await sluice(['rules', 'import', '--from', 'envoy', tempFolder({ 'a.yaml': text })])
    expect(ran.out).toContain('# - d.a\\u2028- id: x_*\n')
    expect(parseRules(ran.out).rules?.rules).toEqual([])
  })

  test('an unknown domain exits 2 and names those that there are', async () => {
    const folder = tempFolder({ 'shop.yaml': SHOP })
    const words = ['rules', 'import', '--from', 'envoy', folder, '--domain', 'x']
    expect(await sluice(words)).toMatchObject({
      code: 2,
      err: '--domain: found "x"; accepted: shop\n',
    })
  })
})
