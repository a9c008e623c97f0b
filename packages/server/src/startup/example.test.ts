import { expect, test } from 'vitest'
import type { Environment } from '../config/variables.js'
import { parseConfig } from '../config/parse-config.js'
import { isUnconfigured } from './example.js'

function isExample(env: Environment, text?: string): boolean {
  const file = text === undefined ? undefined : '/etc/sluice/sluice.yaml'
  const { config, errors } = parseConfig(text, { file, env, readFile: () => '' })
  if (config === undefined) throw new Error(errors.map(({ message }) => message).join('\n'))
  return isUnconfigured(config)
}

const TOKENS = { SLUICE_API_TOKEN: 'a'.repeat(32), SLUICE_ADMIN_TOKEN: 'b'.repeat(32) }

test.each<[string, Environment]>([
  ['nothing at all', {}],
  ['other ports on loopback', { SLUICE_GATEWAY_LISTEN: '127.0.0.1:0' }],
  ['loopback by its name and as IPv6', listens('localhost:9080', '[::1]:9081')],
  [
    'a folder, a token and Redis',
    { SLUICE_DATA_DIR: 'd', SLUICE_REDIS_URL: 'redis://r', ...TOKENS },
  ],
])('the example runs if the environment has %s', (_name, env) => {
  expect(isExample(env)).toBe(true)
})

test.each<[string, Environment]>([
  ['rules', { SLUICE_RULES: 'rules.yaml' }],
  ['a database', { SLUICE_DATABASE_URL: 'postgres://db/sluice' }],
  ['an upstream', { SLUICE_UPSTREAM: 'http://127.0.0.1:3000' }],
  ['a gateway that others can reach', { SLUICE_GATEWAY_LISTEN: '0.0.0.0:8080' }],
  ['a gateway at a name', { SLUICE_GATEWAY_LISTEN: 'sluice.internal:8080' }],
  ['a decision API that others can reach', { ...TOKENS, SLUICE_API_LISTEN: '[::]:8081' }],
  ['a directory of limits for Envoy', { SLUICE_ENVOY_CONFIG: 'ratelimit' }],
  ['an admin listener that others can reach', { ...TOKENS, SLUICE_ADMIN_LISTEN: '10.0.0.1:9090' }],
])('the example does not run if the environment has %s', (_name, env) => {
  expect(isExample(env)).toBe(false)
})

test.each(['', 'log: { level: warn }', 'gateway: { upstreams: [{ url: "http://127.0.0.1:1" }] }'])(
  'the example does not run if there is a configuration file, here %j',
  (text) => {
    expect(isExample({}, text)).toBe(false)
  },
)

function listens(gateway: string, api: string): Environment {
  return { SLUICE_GATEWAY_LISTEN: gateway, SLUICE_API_LISTEN: api }
}
