/** Compares what is said of bad configurations, and selected in good ones, with stored data. */
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { LimitTree } from './limit-tree.js'
import { parseConfigFiles, readConfigDirectory } from './parse-directory.js'

const FOLDER = new URL('../../../../../../conformance/envoy/', import.meta.url)

function readFixture(name: string) {
  const path = fileURLToPath(new URL(`bad/${name}`, FOLDER))
  if (name.endsWith('.yaml')) return [{ file: name, text: readFileSync(path, 'utf8') }]
  const files = readdirSync(path).sort()
  return files.map((file) => ({ file, text: readFileSync(`${path}/${file}`, 'utf8') }))
}

describe('bad configurations', () => {
  const names = readdirSync(new URL('bad/', FOLDER)).filter((name) => !name.endsWith('.txt'))
  test.each(names)('%s: the messages equal the stored ones', async (name) => {
    const options = { mergeDomains: name.startsWith('merged-') }
    const { domains, errors } = await parseConfigFiles(readFixture(name), options)
    const expected = new URL(`bad/${name.replace('.yaml', '')}.txt`, FOLDER)
    const messages = errors.map(({ message }) => `${message}\n`).join('')
    expect(messages).toBe(readFileSync(expected, 'utf8'))
    expect(domains).toBeUndefined()
  })
})

interface Lookup {
  readonly domain: string
  readonly entries: readonly (readonly [string, string])[]
  readonly limit: {
    readonly requestsPerUnit: number
    readonly unit: string | null
    readonly unlimited?: boolean
  } | null
  readonly path?: string
  readonly metricPath?: string
  readonly counter?: readonly string[]
  readonly name?: string
  readonly replaces?: readonly string[]
  readonly shadow?: boolean
  readonly quota?: boolean
  readonly metadata?: unknown
}

describe('good configurations', async () => {
  const good = await readConfigDirectory(fileURLToPath(new URL('good', FOLDER)))
  const trees = new Map(good.domains?.map((config) => [config.domain, new LimitTree(config)]))
  const lookups: readonly Lookup[] = JSON.parse(
    readFileSync(new URL('lookups.json', FOLDER), 'utf8'),
  )

  test.each(
    lookups.map(
      (lookup) => [`${lookup.domain} ${JSON.stringify(lookup.entries)}`, lookup] as const,
    ),
  )('%s selects the stored limit', (_, lookup) => {
    const entries = lookup.entries.map(([key, value]) => ({ key, value }))
    const found = trees.get(lookup.domain)?.select(entries)
    if (lookup.limit === null) return expect(found).toBeUndefined()
    const { requestsPerUnit, unit, unlimited = false } = lookup.limit
    expect(found).toEqual({
      node: {
        path: lookup.path,
        keys: expect.any(Array),
        limit: {
          requestsPerUnit,
          unit: unit ?? undefined,
          isUnlimited: unlimited,
          name: lookup.name ?? '',
          replaces: lookup.replaces ?? [],
        },
        isShadow: lookup.shadow ?? false,
        isQuota: lookup.quota ?? false,
        detailedMetric: expect.any(Boolean),
        valueToMetric: expect.any(Boolean),
        metadata: lookup.metadata,
      },
      counter: lookup.counter,
      metricPath: lookup.metricPath,
    })
  })

  test('what is accepted without effect is a warning', () => {
    expect(good.warnings.map(({ message }) => message.slice(message.indexOf('accepted-')))).toEqual(
      [
        'accepted-without-effect.yaml:4:1: unit: found a key that has no effect here. Accepted: domain, descriptors',
        'accepted-without-effect.yaml:9:5: descriptors[0].name: found a key that has no effect here. Accepted: key, value, rate_limit, descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold, metadata',
        'accepted-without-effect.yaml:10:42: descriptors[0].rate_limit.unit: found "forever". Accepted: no unit where unlimited is true',
        'accepted-without-effect.yaml:13:17: descriptors[1].rate_limit: found no requests_per_unit. Accepted: a number; without it every request is over the limit',
      ],
    )
  })

  test('domains of several files are merged in the order of the files', async () => {
    const folder = fileURLToPath(new URL('merged', FOLDER))
    const apart = await readConfigDirectory(folder)
    expect(apart.errors.map(({ code }) => code)).toEqual(['duplicate-value'])
    const { domains } = await readConfigDirectory(folder, { mergeDomains: true })
    expect(domains).toHaveLength(1)
    const [config] = domains ?? []
    if (config === undefined) throw new Error('there is no domain')
    const tree = new LimitTree(config)
    const limitOf = (key: string, value: string) =>
      tree.select([{ key, value }])?.node.limit.requestsPerUnit
    expect(limitOf('key1', 'value1')).toBe(10)
    expect(limitOf('key2', 'value2')).toBe(20)
    expect(limitOf('w', 'abc')).toBe(1)
  })
})
