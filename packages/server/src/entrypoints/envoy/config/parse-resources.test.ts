/** Resources of a control plane mean what a file of the same content means. */
import { describe, expect, test } from 'vitest'
import {
  encodeConfig,
  type OfficialConfig,
  type OfficialDescriptor,
  protoStruct,
} from '../protobuf/rate-limit-config.test-helper.js'
import { GATEWAY_CONFIG } from '../xds/gateway-config.test-helper.js'
import { LimitTree } from './limit-tree.js'
import { parseDomainFile } from './parse-domain-file.js'
import { CONFIG_TYPE_URL, parseResponse } from './parse-resources.js'

function parse(configs: readonly OfficialConfig[], mergeDomains = false) {
  const resources = configs.map((config) => ({
    typeUrl: CONFIG_TYPE_URL,
    value: encodeConfig(config),
  }))
  return parseResponse({ typeUrl: CONFIG_TYPE_URL, resources }, { mergeDomains })
}

const withDescriptor = (descriptor: OfficialDescriptor): OfficialConfig => ({
  name: 'edge',
  domain: 'd',
  descriptors: [descriptor],
})

describe('a resource and a file of the same content', () => {
  test('are the same domain', async () => {
    const metadata = { tier: 'gold', limits: [1, 2.5, true, null], 'deep.er': { a: {} } }
    const named = {
      unit: 'WEEK',
      requests_per_unit: 7,
      name: 'weekly',
      replaces: [{ name: 'daily' }],
    }
    const inner = { key: 'path', value: '/a*', shadow_mode: true, detailed_metric: true }
    const descriptors: OfficialDescriptor[] = [
      { key: 'user', rate_limit: named, metadata: protoStruct(metadata) },
      { key: 'plan', value: 'free', quota_mode: true, descriptors: [inner] },
      { key: 'open', rate_limit: { unlimited: true } },
      { key: 'none', rate_limit: { unit: 'DAY' } },
    ]
    const { domains, errors, warnings } = await parse([{ name: 'n', domain: 'd', descriptors }])
    const file = {
      domain: 'd',
      descriptors: [
        { key: 'user', rate_limit: { ...named, unit: 'week' }, metadata },
        { key: 'plan', value: 'free', quota_mode: true, descriptors: [inner] },
        { key: 'open', rate_limit: { unlimited: true } },
        { key: 'none', rate_limit: { unit: 'day', requests_per_unit: 0 } },
      ],
    }
    expect(errors).toEqual([])
    expect(warnings).toEqual([])
    expect(domains).toEqual([parseDomainFile(JSON.stringify(file), { file: 'f' }).config])
  })

  test.each<[string, OfficialConfig, string]>([
    ['no domain', { name: 'edge' }, 'domain: found "". Accepted: the name of the domain'],
    [
      'an empty key',
      withDescriptor({ key: 'a', descriptors: [{}] }),
      'descriptors[0].descriptors[0].key: found "". Accepted: a key, as requests have it',
    ],
    [
      'a unit without a name',
      withDescriptor({ key: 'a', rate_limit: { unit: 9, requests_per_unit: 1 } }),
      'descriptors[0].rate_limit.unit: unknown value "9". Accepted: second, minute, hour, day, week, month, year',
    ],
    [
      'a unit of an unlimited limit',
      withDescriptor({ key: 'a', rate_limit: { unit: 'DAY', unlimited: true } }),
      'descriptors[0].rate_limit.unit: bad value "day". Accepted: no unit where unlimited is true',
    ],
    [
      'a limit that replaces itself',
      withDescriptor({
        key: 'a',
        rate_limit: { unit: 'DAY', name: 'x', replaces: [{ name: 'x' }] },
      }),
      'descriptors[0].rate_limit.replaces[0].name: bad value "x". Accepted: the name of the limit of another descriptor',
    ],
    [
      'a key twice',
      { name: 'edge', domain: 'd', descriptors: [{ key: 'a', value: 'b' }, { key: 'a_b' }] },
      'descriptors[1]: "d.a_b" is given twice. Accepted: each key with its value once, joined by _; the first is descriptors[0]',
    ],
    [
      'a control character',
      withDescriptor({ key: 'a\nb' }),
      'descriptors[0].key: bad value "a\\u000ab". Accepted: a key, as requests have it, without control characters',
    ],
  ])('%s is an error with resource and place', async (_, config, message) => {
    const { domains, errors } = await parse([config])
    expect(errors.map((error) => error.message)).toEqual([`resource edge: ${message}`])
    expect(domains).toBeUndefined()
  })

  test('a resource without a name is known by its place', async () => {
    const { errors } = await parse([{ domain: 'a' }, { domain: '' }])
    expect(errors.map(({ message }) => message)).toEqual([
      'resource 2: domain: found "". Accepted: the name of the domain',
    ])
  })
})

describe('what Envoy Gateway generates', () => {
  test('is read, and each descriptor of its proxies finds its limit', async () => {
    const { domains, errors } = await parse([GATEWAY_CONFIG])
    expect(errors).toEqual([])
    const [config] = domains ?? []
    const tree = config && new LimitTree(config)
    const limitOf = (...entries: readonly (readonly [string, string])[]) =>
      tree?.select(entries.map(([key, value]) => ({ key, value })))?.node.limit
    const route = ['httproute/shop/orders/rule/0', 'httproute/shop/orders/rule/0'] as const
    const of = (name: string) => [name, name] as const
    expect(limitOf(route, of('rule-0-match-0'))).toMatchObject({ requestsPerUnit: 3 })
    // A distinct header has a key only, and each value a counter of its own.
    expect(limitOf(route, ['rule-1-match-0', 'user-1'])).toMatchObject({ requestsPerUnit: 5 })
    expect(
      limitOf(
        route,
        of('rule-2-match-0'),
        ['masked_remote_address', '192.168.0.0/16'],
        ['remote_address', '192.168.4.5'],
      ),
    ).toMatchObject({ requestsPerUnit: 10, unit: 'hour' })
    expect(limitOf(route, of('rule-2-match-0'))).toBeUndefined()
  })
})
