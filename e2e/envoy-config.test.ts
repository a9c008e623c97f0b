/** A directory of envoyproxy/ratelimit behind the rate limit service of `sluice serve`. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { statusText } from '../packages/server/src/entrypoints/envoy/conformance.test-helper.js'
import {
  closeAfterEach,
  eventually,
  TestClient,
} from '../packages/server/src/entrypoints/envoy/envoy.test-helper.js'
import { responseOf } from '../packages/server/src/entrypoints/envoy/protobuf/official-messages.test-helper.js'
import { makeFolder, stopAll } from './process.test-helper.js'
import { start } from './serve.test-helper.js'

afterEach(stopAll)
closeAfterEach()

const perUser = (max: number) => `domain: edge
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: ${max} }
`
const REQUEST = {
  domain: 'edge',
  descriptors: [{ entries: [{ key: 'user', value: 'u1' }] }],
}

async function startWith(text: string) {
  const folder = makeFolder()
  const file = join(folder, 'config', 'edge.yaml')
  mkdirSync(join(folder, 'config'))
  writeFileSync(file, text)
  const server = await start({ SLUICE_ENVOY_CONFIG: 'config' }, folder)
  const client = new TestClient(server.grpc)
  const code = async () => {
    const { error, response } = await client.shouldRateLimit(REQUEST)
    return error?.message ?? (response as { readonly overall_code: string }).overall_code
  }
  const isReady = async () => (await fetch(`${server.api}/readyz`)).status === 200
  return { ...server, code, isReady, write: (changed: string) => writeFileSync(file, changed) }
}

test('an unmodified directory limits calls over gRPC, and a change of it goes on with what was used', async () => {
  const { code, isReady, write } = await startWith(perUser(2))
  // Its limits count as rules.
  expect(await isReady()).toBe(true)
  expect([await code(), await code(), await code()]).toEqual(['OK', 'OK', 'OVER_LIMIT'])
  write('domain: edge\ndescriptors: [{ key: user, rate_limit: { unit: fortnight } }]\n')
  expect(await code()).toBe('OVER_LIMIT')
  write(perUser(3))
  await eventually(code).toBe('OK')
  expect(await code()).toBe('OVER_LIMIT')
})

test('a server whose first configuration has errors is not ready until they are mended', async () => {
  const { api, code, isReady, write } = await startWith('domain: edge\nlimits: []\n')
  expect(await isReady()).toBe(false)
  expect(await (await fetch(`${api}/readyz`)).text()).toContain('no Envoy configuration')
  expect(await code()).toContain('UNAVAILABLE')
  write(perUser(1))
  await eventually(isReady).toBe(true)
  expect([await code(), await code()]).toEqual(['OK', 'OVER_LIMIT'])
})

test('a file that is added gives its domain limits, its removal takes them away, and each is counted as a load', async () => {
  const { folder, grpc, admin } = await startWith(perUser(2))
  const client = new TestClient(grpc)
  const ask = async (key: string) => {
    const descriptors = [{ entries: [{ key, value: 'foo' }] }]
    const { response } = await client.shouldRateLimit({ domain: 'reload', descriptors })
    return responseOf(response).statuses.map(statusText)
  }
  const loads = async () => {
    const text = await (await fetch(`${admin}/metrics`)).text()
    return Number(/^ratelimit_service_config_load_success (\d+)$/m.exec(text)?.[1])
  }
  expect(await ask('block')).toEqual(['OK'])
  const before = await loads()
  const file = join(folder, 'config', 'reload.yaml')
  writeFileSync(
    file,
    `domain: reload
descriptors:
  - { key: key1, rate_limit: { unit: year, requests_per_unit: 50 } }
  - { key: block, rate_limit: { unit: year, requests_per_unit: 0 } }
`,
  )
  await eventually(async () => (await ask('block'))[0]).toMatch(/^OVER 0\/year 0 /)
  expect((await ask('key1'))[0]).toMatch(/^OK 50\/year 49 /)
  const added = await loads()
  expect(added).toBeGreaterThan(before)
  rmSync(file)
  await eventually(() => ask('block')).toEqual(['OK'])
  expect(await loads()).toBeGreaterThan(added)
})
