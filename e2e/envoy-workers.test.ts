/** The rate limit service for Envoy with several workers behind its port. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  closeAfterEach,
  eventually,
  SERVERS,
  TestClient,
} from '../packages/server/src/entrypoints/envoy/envoy.test-helper.js'
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

const TOKEN = 'admin-token-0123456789'
const CONNECTIONS = 12
const LIMIT = { algorithm: 'fixed-window', max: 50, window: '366d' }

async function startWorkers(server: string) {
  const folder = makeFolder()
  // Nothing is decided by posture on a busy machine.
  writeFileSync(join(folder, 'sluice.yaml'), `envoy: { deadline: 10s, server: ${server} }\n`)
  const env = {
    SLUICE_WORKERS: '2',
    SLUICE_REDIS_URL: redis.url,
    SLUICE_STORE_DEADLINE_MS: '10000',
    SLUICE_ADMIN_TOKEN: TOKEN,
    SLUICE_ALLOW_NO_RULES: 'true',
  }
  return start(env, folder)
}

test.each(SERVERS)(
  'workers with the server %s share the gRPC port and its counters, and stop without losing a call',
  async (server) => {
    const { program, admin, grpc } = await startWorkers(server)
    const authorization = `Bearer ${TOKEN}`
    const rule = { id: 'edge', match: { where: { domain: 'edge' } }, by: ['ip'], limits: [LIMIT] }
    const made = await fetch(`${admin}/admin/v1/rules`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify(rule),
    })
    expect(made.status).toBe(201)
    const clients = Array.from({ length: CONNECTIONS }, () => new TestClient(grpc))
    const request = {
      domain: 'edge',
      descriptors: [{ entries: [{ key: 'remote_address', value: '192.0.2.1' }] }],
    }
    const call = async (client: TestClient) => {
      const { error, response } = await client.shouldRateLimit(request)
      return error?.message ?? (response as { readonly overall_code: string }).overall_code
    }
    // Each worker learns of the rule by itself.
    const refusedAfter = async () => {
      const codes = await Promise.all(clients.map(call))
      return codes.every((code) => code === 'OVER_LIMIT')
    }
    let rounds = 0
    while (!(await refusedAfter()) && rounds++ < 100) await sleep(100)
    expect(rounds).toBeLessThan(100)
    const readMetrics = async () =>
      (await fetch(`${admin}/metrics`, { headers: { authorization } })).text()
    expect(await readMetrics()).toContain(`sluice_grpc_connections ${CONNECTIONS}\n`)
    const allowed = (await readMetrics()).matchAll(
      /^sluice_decisions_total\{rule="edge",outcome="allowed",.*\} (\d+)$/gm,
    )
    expect([...allowed].reduce((sum, [, count]) => sum + Number(count), 0)).toBe(LIMIT.max)

    let answered = 0
    const failures: string[] = []
    let isStopping = false
    const callers = clients.map(async (client) => {
      while (!isStopping) {
        const code = await call(client)
        if (code === 'OVER_LIMIT') answered++
        else if (!isStopping) failures.push(code)
      }
    })
    await eventually(() => answered).toBeGreaterThan(CONNECTIONS)
    program.signal('SIGTERM')
    // Half of the time in which a stopping server still accepts everything.
    await sleep(500)
    isStopping = true
    await Promise.all(callers)
    expect(failures).toEqual([])
    expect(await program.code()).toBe(0)
  },
)
