/** Two servers of the rate limit service on one Redis: what both admit is exact to the unit. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  closeAfterEach,
  SERVERS,
  TestClient,
} from '../packages/server/src/entrypoints/envoy/envoy.test-helper.js'
import {
  encodeRequest,
  responseOf,
} from '../packages/server/src/entrypoints/envoy/protobuf/official-messages.test-helper.js'
import type {
  RateLimitRequest,
  RateLimitResponse,
} from '../packages/server/src/entrypoints/envoy/rate-limit-messages.js'
import { type RedisServer, startRedis } from '../tools/redis/server.mjs'
import { makeFolder, stopAll } from './process.test-helper.js'
import { start } from './serve.test-helper.js'

let redis: RedisServer

beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())
afterEach(async () => {
  await stopAll()
  await redis.cli('FLUSHALL')
})
closeAfterEach()

const DESCRIPTORS = 10
const REQUESTS = 600
/** Of the first descriptor; each further one has so many more. */
const SMALLEST = 100
const STEP = 10
const limitOf = (i: number) => SMALLEST + STEP * i
const indexes = Array.from({ length: DESCRIPTORS }, (_, i) => i)
const DOMAIN = 'shop'

function requestOf(keys: readonly number[], returned?: (key: number) => number): RateLimitRequest {
  const descriptors = keys.map((i) => ({
    entries: [{ key: `key${i}`, value: 'x' }],
    limit: undefined,
    hitsAddend: returned?.(i),
    isNegativeHits: returned !== undefined,
  }))
  return { domain: DOMAIN, descriptors, hitsAddend: 0 }
}

/** A node with 10 limits, whose window ends once a year. */
function startNode(server: string, counting: string) {
  const folder = makeFolder()
  mkdirSync(join(folder, 'config'))
  const descriptors = indexes.map((i) => ({
    key: `key${i}`,
    rate_limit: { unit: 'year', requests_per_unit: limitOf(i) },
  }))
  writeFileSync(join(folder, 'config/shop.yaml'), JSON.stringify({ domain: DOMAIN, descriptors }))
  // Nothing is decided by posture on a busy machine.
  const envoy = { server, deadline: '10s', domains: { [DOMAIN]: { counting } } }
  writeFileSync(join(folder, 'sluice.yaml'), JSON.stringify({ envoy }))
  const env = {
    SLUICE_ENVOY_CONFIG: 'config',
    SLUICE_REDIS_URL: redis.url,
    SLUICE_STORE_DEADLINE_MS: '10000',
  }
  return start(env, folder)
}

/** Sends all requests at once, every second one to the other node. */
async function startFleet(server: string, counting: string) {
  const nodes = await Promise.all([startNode(server, counting), startNode(server, counting)])
  const clients = nodes.map(({ grpc }) => new TestClient(grpc))
  const ask = async (request: RateLimitRequest, i = 0) => {
    const { error, response } = await (clients[i % 2] as TestClient).shouldRateLimit(
      encodeRequest(request),
    )
    if (error !== undefined) throw error
    return responseOf(response)
  }
  const request = requestOf(indexes)
  const sent = Array.from({ length: REQUESTS }, (_, i) => ask(request, i))
  const admitted = (await Promise.all(sent)).filter(({ overallCode }) => overallCode === 'ok')
  expect(admitted).toHaveLength(SMALLEST)
  return ask
}

const remainingOf = ({ statuses }: RateLimitResponse) =>
  statuses.map(({ limitRemaining }) => limitRemaining)

describe.each(SERVERS)('with envoy.server: %s two servers on one Redis', (server) => {
  test('admit exactly the smallest of ten limits, and charge none for what it refuses', async () => {
    const ask = await startFleet(server, 'sluice')
    const others = indexes.slice(1)
    const answer = await ask(requestOf(others))
    expect(remainingOf(answer)).toEqual(others.map((i) => limitOf(i) - SMALLEST - 1))
  })

  test('admit exactly the smallest of ten limits, and count every request with counting: reference', async () => {
    const ask = await startFleet(server, 'reference')
    const left = 5
    const answer = await ask(requestOf(indexes, (i) => REQUESTS - limitOf(i) + left))
    expect(remainingOf(answer)).toEqual(indexes.map(() => left))
  })
})
