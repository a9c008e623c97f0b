import { expect, test } from 'vitest'
import { parseConfig } from './parse-config.js'

const ENV = {
  SLUICE_REGION: 'eu-west',
  SLUICE_REDIS_URL: 'redis://127.0.0.1:6379',
  SLUICE_KEY_SECRET: '00112233445566778899aabbccddeeff',
}
const US = 'us-east: { redis: "rediss://guest:secret-password@us.internal:6379" }'

function parse(text: string, env: Readonly<Record<string, string>> = ENV) {
  return parseConfig(text, { file: 'sluice.yaml', env, readFile: () => '' })
}

function messagesOf(text: string, env?: Readonly<Record<string, string>>) {
  const { config, errors } = parse(text, env)
  expect(config === undefined).toBe(errors.length > 0)
  return errors.map(({ message }) => message)
}

test('the other regions are read in order of their names, with the own one from the environment', () => {
  const text = `region: ignored
regions:
  syncEvery: 250ms
  us-east: { redis: 'rediss://guest:p@us.internal:6379', tls: { ca: us.pem } }
  ap-south: { redis: 'rediss+cluster://guest:p@ap-1.internal,ap-2.internal' }`
  const { config, errors } = parse(text)
  expect(errors).toEqual([])
  expect(config?.regions).toEqual({
    own: 'eu-west',
    syncEveryMs: 250,
    others: [
      {
        name: 'ap-south',
        url: 'rediss+cluster://guest:p@ap-1.internal,ap-2.internal',
        tls: undefined,
      },
      {
        name: 'us-east',
        url: 'rediss://guest:p@us.internal:6379',
        tls: { ca: expect.stringContaining('us.pem') },
      },
    ],
  })
})

test('one file serves all regions: the entry of the own region is not used', () => {
  const text = `regions: { ${US}, eu-west: { redis: 'rediss://guest:p@eu.internal' } }`
  expect(parse(text).config?.regions?.others.map(({ name }) => name)).toEqual(['us-east'])
})

test('there is only one region without others, and no setting is then needed', () => {
  expect(parse('region: eu-west', {}).config?.regions).toBeUndefined()
  expect(parse('regions: {}', {}).config?.regions).toBeUndefined()
  expect(parse('', {}).config?.regions).toBeUndefined()
})

test('what regions need is named where it is missing', () => {
  expect(messagesOf(`regions: { ${US} }`, {})).toEqual([
    'sluice.yaml:1:10: region: missing. Accepted: the region of this node, here or in SLUICE_REGION, beside regions',
    'sluice.yaml:1:10: redis.url: missing. Accepted: the Redis of this region, here or in SLUICE_REDIS_URL, beside regions',
    'sluice.yaml:1:10: SLUICE_KEY_SECRET: missing. Accepted: the same secret in all regions, beside regions: with another one each would count the same callers under other names',
  ])
})

test.each([
  ['region: EU', 'region: bad value "EU". Accepted: 1 to 32 of a-z, 0-9 and "-", such as eu-west'],
  [
    'regions: us-east',
    'regions: found "us-east". Accepted: a map of regions, such as { us-east: { redis: rediss://… } }',
  ],
  [
    `regions: { US: {} }`,
    'regions: unknown key "US". Accepted: syncEvery, or the name of a region: 1 to 32 of a-z, 0-9 and "-", such as eu-west',
  ],
  [
    `regions: { "a secret that is misplaced": {} }`,
    'regions: unknown key of 26 characters. Accepted: syncEvery, or the name of a region: 1 to 32 of a-z, 0-9 and "-", such as eu-west',
  ],
  [
    `regions: { us-east: {} }`,
    'regions.us-east.redis: missing. Accepted: the URL of the Redis of that region',
  ],
  [
    `regions: { syncEvery: 10ms, ${US} }`,
    'regions.syncEvery: bad duration "10ms". Accepted: a duration from 20ms to 10s, a whole number and ms, s, m or h',
  ],
  [
    `regions: { us-east: { redis: 'redis://127.0.0.1', tls: { ca: us.pem } } }`,
    'regions.us-east.tls: bad value beside a URL without TLS. Accepted: a URL that begins with rediss, or no tls',
  ],
])('%s is refused', (text, message) => {
  const [found] = messagesOf(text)
  expect(found?.replace(/^sluice.yaml:1:\d+: /, '')).toBe(message)
})

test('a URL without TLS is accepted on this machine, and elsewhere only where it is said', () => {
  const link = (more: string, host: string) =>
    messagesOf(`regions: { us-east: { redis: 'redis://:a-password@${host}'${more} } }`)
  expect(link('', '127.0.0.1')).toEqual([])
  expect(link(', insecure: true', 'us.internal')).toEqual([])
  const [message] = link('', 'us.internal')
  expect(message).toContain('regions.us-east.redis: bad value a URL without TLS. Accepted: a URL')
  expect(message).not.toContain('a-password')
})

test('more than 16 regions are refused', () => {
  const regions = Array.from({ length: 17 }, (_, i) => `r${i}: { redis: 'redis://127.0.0.1' }`)
  expect(messagesOf(`regions: { ${regions.join(', ')} }`)[0]).toContain('17 regions')
})
