import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test, vi } from 'vitest'
import { startRedis } from '../tools/redis/server.mjs'
import { findService } from '../tools/services.mjs'
import { freePorts, makeFolder, startProgram, waitFor } from './process.test-helper.js'
import { shareRedis, startNode } from './serve-redis.test-helper.js'
import { waitForExit, run, type RunningServer, start } from './serve.test-helper.js'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
/** A long deadline, so that no call is decided by posture because the machine was busy. */
const PATIENT = { SLUICE_STORE_DEADLINE_MS: '10000' }
const LIMIT = 100
const SOON = { timeout: 20_000, interval: 50 }
/** A sliding log counts exactly, whenever the test begins. */
const RULES = `
rules:
  - id: everybody
    by: []
    limits: [{ algorithm: sliding-window-log, max: ${LIMIT}, window: 1h }]
`

const redis = shareRedis()
const startOn = (env: Record<string, string> = {}, rules = RULES) =>
  startNode(rules, { SLUICE_REDIS_URL: redis().url, ...env })

/** The statuses of this many calls, 20 at a time, each on its own connection if requested. */
async function call(urls: readonly string[], times: number, headers = {}): Promise<number[]> {
  const statuses: number[] = []
  let begun = 0
  const client = async () => {
    while (begun < times) {
      const url = urls[begun++ % urls.length] ?? ''
      const response = await fetch(url, { headers })
      await response.text()
      statuses.push(response.status)
    }
  }
  await Promise.all(Array.from({ length: 20 }, client))
  return statuses
}

const admitted = (statuses: readonly number[]) => statuses.filter((status) => status === 200).length

async function metricOf({ admin }: RunningServer, series: string): Promise<number | undefined> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  const line = text.split('\n').find((each) => each.startsWith(`${series} `))
  return line === undefined ? undefined : Number(line.split(' ').at(-1))
}

describe('one limit', () => {
  test('is enforced exactly by two processes on one Redis', async () => {
    const nodes = await Promise.all([startOn(PATIENT), startOn(PATIENT)])
    const [first, second] = nodes
    const statuses = await call([first.gateway, second.gateway], 4 * LIMIT)
    expect([admitted(statuses), new Set(statuses)]).toEqual([LIMIT, new Set([200, 429])])
    await vi.waitFor(async () => {
      expect(await metricOf(first, 'sluice_fleet_size')).toBe(2)
      expect(await metricOf(first, 'sluice_counters')).toBeGreaterThan(0)
    }, SOON)
    const counts = await Promise.all(
      nodes.map((node) => metricOf(node, 'sluice_store_seconds_count')),
    )
    for (const count of counts) expect(count).toBeGreaterThan(0)
    const ready = (await (await fetch(`${first.api}/readyz`)).json()) as object
    expect(ready).toEqual({ status: 'ready', reasons: [], store: 'redis: answering' })
  })

  test('is enforced exactly by two workers behind the same listeners', async () => {
    const node = await startOn({ ...PATIENT, SLUICE_WORKERS: '2' })
    // One connection per call, or one worker would get them all.
    const statuses = await call([node.gateway], 4 * LIMIT, { connection: 'close' })
    expect(admitted(statuses)).toBe(LIMIT)
    const decided = (outcome: string, source: string) =>
      metricOf(
        node,
        `sluice_decisions_total{rule="everybody",outcome="${outcome}",source="${source}"}`,
      )
    // A worker that does not send its metrics in time is left out of the sum.
    await vi.waitFor(async () => {
      expect(await decided('allowed', 'store')).toBe(LIMIT)
      const refused = [await decided('refused', 'store'), await decided('refused', 'deny-cache')]
      expect(refused.reduce<number>((sum, count) => sum + (count ?? 0), 0)).toBe(3 * LIMIT)
    }, SOON)
    await vi.waitFor(async () => expect(await metricOf(node, 'sluice_fleet_size')).toBe(2), SOON)
    node.program.signal('SIGTERM')
    expect((await waitForExit(node.program)).code).toBe(0)
  })
})

test('a worker that dies is replaced in a server with a configuration file and no terminal', async () => {
  const folder = makeFolder()
  writeFileSync(join(folder, 'rules.yaml'), RULES)
  writeFileSync(join(folder, 'sluice.yaml'), 'workers: 2\nrules: rules.yaml\n')
  const program = run(['serve'], { SLUICE_REDIS_URL: redis().url }, folder)
  const listening = () => [...program.output().matchAll(/"pid":(\d+)[^\n]*"msg":"listening"/g)]
  await waitFor(program, () => listening().length === 2)
  process.kill(Number(listening()[0]?.[1]), 'SIGKILL')
  await waitFor(program, () => listening().length === 3 || program.hasEnded())
  expect(program.output()).toContain('worker exited')
  program.signal('SIGTERM')
  expect(await program.code()).toBe(0)
})

test('npm start with SLUICE_REDIS_URL runs the example on Redis and shows no password', async () => {
  const guarded = await startRedis({ password: 'hunter2hunter2' })
  const program = startProgram('npm', ['start'], {
    cwd: ROOT,
    env: {
      SLUICE_GATEWAY_LISTEN: '127.0.0.1:0',
      SLUICE_API_LISTEN: '127.0.0.1:0',
      SLUICE_GRPC_LISTEN: '127.0.0.1:0',
      SLUICE_ADMIN_LISTEN: '127.0.0.1:0',
      SLUICE_DATA_DIR: makeFolder(),
      SLUICE_REDIS_URL: guarded.url,
      ...PATIENT,
    },
  })
  try {
    await waitFor(program, () => program.output().includes('"msg":"listening"'))
    const output = program.output()
    expect(output).toContain(`counters       redis://:***@${guarded.address}\n`)
    const gateway = /gateway +(\S+)/.exec(output)?.[1] ?? ''
    const headers = { 'x-api-key': 'demo-key-of-ann-free' }
    const response = await fetch(`${gateway}/v1/orders/7`, { headers })
    expect([response.status, response.headers.get('x-ratelimit-remaining')]).toEqual([200, '9'])
    expect(Number(await guarded.cli('DBSIZE'))).toBeGreaterThan(0)
    program.signal('SIGTERM')
    expect(await program.code()).toBe(0)
    expect(program.output()).not.toContain('hunter2')
  } finally {
    // npm would leave its child behind if it were killed itself.
    const pid = Number(/"pid":(\d+)/.exec(program.output())?.[1])
    if (!program.hasEnded() && pid > 0) process.kill(pid, 'SIGKILL')
    await guarded.stop()
  }
})

describe('a Redis that dies under a running server', () => {
  const BY_POSTURE = `
rules:
  - { id: open, match: { path: /open }, by: [], limits: [1/hour], posture: open }
  - { id: closed, match: { path: /closed }, by: [], limits: [100/hour], posture: closed }
  - { id: local, match: { path: /local }, by: [], limits: [3/hour], posture: local }
  - { id: user, by: [user], limits: [3/hour] }
`

  test('costs precision and no call, and limits are exact again when it is back', async () => {
    const node = await startOn({}, BY_POSTURE)
    const { gateway, api, program } = node
    const statusOf = async (path: string) => (await fetch(`${gateway}${path}`)).status
    await vi.waitFor(async () => expect(await statusOf('/closed')).toBe(200), SOON)
    await redis().kill()
    expect([await statusOf('/open'), await statusOf('/open')]).toEqual([200, 200])
    const refused = await fetch(`${gateway}/closed`)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([
      429,
      expect.stringMatching(/^\d+$/) as string,
    ])
    expect(await refused.json()).toMatchObject({
      type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
      'violated-policies': ['closed'],
    })
    expect(admitted(await call([`${gateway}/local`], 20))).toBe(3)

    const ready = await fetch(`${api}/readyz`)
    expect([ready.status, await ready.json()]).toMatchObject([
      200,
      {
        status: 'ready',
        store: expect.stringContaining('redis: not answering since 20') as string,
      },
    ])
    for (const rule of ['open', 'closed', 'local']) {
      expect(
        await metricOf(node, `sluice_degraded_total{rule="${rule}",posture="${rule}"}`),
      ).toBeGreaterThan(0)
    }
    await waitFor(program, () => program.output().includes('"alert":"breaker-open"'))
    // The alert of the store includes the fallbacks of the rules.
    expect(program.output()).not.toContain('"alert":"degraded"')

    await redis().start()
    await vi.waitFor(async () => {
      const answer = await fetch(`${api}/v1/check`, {
        method: 'POST',
        body: '{"attributes":{"method":"GET","path":"/closed"}}',
      })
      expect(await answer.json()).toMatchObject({ allowed: true, source: 'store' })
    }, SOON)
    const again = (await (await fetch(`${api}/readyz`)).json()) as object
    expect(again).toMatchObject({ store: 'redis: answering' })
  })

  test('makes refunds and resets fail with 503, and posture refusals too if so configured', async () => {
    const folder = makeFolder()
    writeFileSync(join(folder, 'rules.yaml'), BY_POSTURE)
    writeFileSync(join(folder, 'sluice.yaml'), 'refusals: { postureStatus: 503 }')
    const env = {
      SLUICE_RULES: 'rules.yaml',
      SLUICE_REDIS_URL: redis().url,
      SLUICE_ADMIN_TOKEN: 'admin-token-0123456789',
    }
    const { gateway, api, program } = await start(env, folder)
    await redis().kill()
    await vi.waitFor(async () => expect((await fetch(`${gateway}/closed`)).status).toBe(503), SOON)
    const answer = await fetch(`${api}/v1/reset`, {
      method: 'POST',
      headers: { authorization: 'Bearer admin-token-0123456789' },
      body: '{"attributes":{"user":"u1"}}',
    })
    expect([answer.status, await answer.json()]).toMatchObject([503, { error: 'STORE_FAILED' }])
    await waitFor(program, () => program.output().includes('decision API: request failed'))
  })
})

test('TLS works with a private CA and a client certificate', async () => {
  const folder = makeFolder()
  makeCertificates(folder)
  const { tlsPort } = await freePorts('tlsPort')
  const file = (name: string) => join(folder, name)
  const secure = await startRedis({
    config: [
      '--tls-port',
      String(tlsPort),
      '--tls-ca-cert-file',
      file('ca.crt'),
      '--tls-cert-file',
      file('redis.crt'),
      '--tls-key-file',
      file('redis.key'),
    ],
  })
  try {
    const url = `rediss://127.0.0.1:${tlsPort}`
    const tls = '{ ca: ca.crt, cert: redis.crt, key: redis.key, servername: redis.test }'
    writeFileSync(file('sluice.yaml'), `redis: { url: "${url}", tls: ${tls} }`)
    const { api, program } = await start({}, folder)
    const ready = (await (await fetch(`${api}/readyz`)).json()) as object
    expect(ready).toMatchObject({ store: 'redis: answering' })
    await program.stop()
    writeFileSync(file('sluice.yaml'), `redis: { url: "${url}", tls: { ca: no.crt } }`)
    const { code, output } = await waitForExit(run(['serve', '--check'], {}, folder))
    expect(output).toMatch(/^redis\.tls: .*no\.crt: there is no such file$/m)
    expect(code).toBe(2)
  } finally {
    await secure.stop()
  }
})

function makeCertificates(folder: string): void {
  const openssl = (...args: readonly string[]) =>
    execFileSync(findService('openssl'), args, { cwd: folder, stdio: 'ignore' })
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const made = (name: string) => ['-keyout', `${name}.key`, '-out', `${name}.crt`, '-days', '2']
  openssl('req', '-x509', ...key, '-subj', '/CN=Test authority', ...made('ca'))
  const name = ['-subj', '/CN=redis.test', '-addext', 'subjectAltName=DNS:redis.test']
  openssl('req', '-x509', ...key, ...name, '-CA', 'ca.crt', '-CAkey', 'ca.key', ...made('redis'))
}
