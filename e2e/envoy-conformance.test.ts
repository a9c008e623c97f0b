/**
 * The conformance suite of the rate limit service over real sockets: a client with the official
 * definitions, and `sluice serve` with each HTTP/2 server, in memory and on Redis.
 *
 * The time of these servers is that of the machine. A case that takes from one counter twice says
 * nothing if a window ended meanwhile, and is repeated then, in a domain of its own.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type ConformanceCase,
  conformanceCases,
  expectedOf,
  expectMetrics,
  runStep,
  type ServiceUnderTest,
  type StepAnswer,
  testConformance,
} from '../packages/server/src/entrypoints/envoy/conformance.test-helper.js'
import {
  closeAfterEach,
  eventually,
  SERVERS,
  TestClient,
} from '../packages/server/src/entrypoints/envoy/envoy.test-helper.js'
import { windowOfUnit } from '../packages/server/src/entrypoints/envoy/limit-units.js'
import {
  encodeRequest,
  responseOf,
} from '../packages/server/src/entrypoints/envoy/protobuf/official-messages.test-helper.js'
import type {
  LimitUnit,
  RateLimitRequest,
} from '../packages/server/src/entrypoints/envoy/rate-limit-messages.js'
import type { Counting } from '../packages/server/src/entrypoints/envoy/service-options.js'
import { type RedisServer, startRedis } from '../tools/redis/server.mjs'
import { makeFolder, stopAll } from './process.test-helper.js'
import { type RunningServer, start } from './serve.test-helper.js'

/** Only a case within one second is ever repeated more than once. */
const ATTEMPTS = 5
/** Longer cases run with a clock that tests set. */
const WAIT_MS_MAX = 2000
/** How far the clock of the store may be from that of this process. */
const CLOCKS_MS = 50
/** Requests have a whole number of seconds. */
const SECOND_MS = 1000
const SECONDS = /\b(\d+)s$/
const END = 'until the end'
/** The domain of a test of its own. */
const EDGE_DOMAIN = 'edge'
const ONE_PER_SECOND = { requestsPerUnit: 1, unit: 'second' } as const
const DESCRIPTOR = { hitsAddend: undefined, isNegativeHits: false }
const COUNTINGS = ['all-or-nothing', 'reference'] as const

const cases = conformanceCases.filter(
  ({ steps }) => steps.reduce((sum, { waitMs = 0 }) => sum + waitMs, 0) <= WAIT_MS_MAX,
)

/** What holds for all domains of a server, so that each needs one of its own. */
const MODES = ['plain', 'shadow', 'quota'] as const
type Mode = (typeof MODES)[number]

function modeOf({ isShadow = false, isQuota = false }: ConformanceCase): Mode {
  if (isShadow) return 'shadow'
  return isQuota ? 'quota' : 'plain'
}

/** Each attempt at a case has domains of its own, so that its counters are new. */
const suffixOf = (each: ConformanceCase, counting: Counting, attempt: number) =>
  `-${cases.indexOf(each)}-${COUNTINGS.indexOf(counting)}-${attempt}`

function writeConfig(folder: string, mode: Mode, kind: string, hasRedis: boolean): void {
  mkdirSync(join(folder, 'config'))
  const domains: Record<string, object> = {}
  for (const each of cases.filter((one) => modeOf(one) === mode)) {
    for (const counting of each.counting) {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        for (const config of each.config) {
          const domain = config.domain + suffixOf(each, counting, attempt)
          domains[domain] = {
            counting: counting === 'reference' ? counting : 'sluice',
            requireMatch: each.requireMatch === true,
          }
          const file = join(folder, 'config', `${domain}.yaml`)
          writeFileSync(file, JSON.stringify({ ...config, domain }))
        }
      }
    }
  }
  writeFileSync(join(folder, 'config', 'edge.yaml'), JSON.stringify({ domain: EDGE_DOMAIN }))
  const modes = mode === 'plain' ? {} : { [mode]: true }
  const envoy = { deadline: '10s', metadata: true, server: kind, domains, ...modes }
  // A refusal that a node remembers does not say all.
  const redis = { denyCache: '0ms' }
  writeFileSync(
    join(folder, 'sluice.yaml'),
    JSON.stringify(hasRedis ? { envoy, redis } : { envoy }),
  )
}

function startServer(mode: Mode, kind: string, redis: RedisServer | undefined) {
  const folder = makeFolder()
  writeConfig(folder, mode, kind, redis !== undefined)
  const env = { SLUICE_ENVOY_CONFIG: 'config', SLUICE_STORE_DEADLINE_MS: '10000' }
  return start(redis === undefined ? env : { ...env, SLUICE_REDIS_URL: redis.url }, folder)
}

function openService({ grpc, admin }: RunningServer, suffix: string): ServiceUnderTest {
  const client = new TestClient(grpc)
  const renamed = (request: RateLimitRequest) =>
    request.domain === '' ? request : { ...request, domain: request.domain + suffix }
  return {
    async shouldRateLimit(request) {
      const { error, response } = await client.shouldRateLimit(encodeRequest(renamed(request)))
      if (error !== undefined) throw new Error(error.details)
      return responseOf(response)
    },
    advance: (ms) => (ms === 0 ? undefined : sleep(ms)),
    async metrics() {
      const text = await (await fetch(`${admin}/metrics`)).text()
      const lines = text.split('\n').filter((line) => line.includes(`${suffix}",`))
      return lines.join('\n').replaceAll(`${suffix}",`, '",')
    },
    close: async () => client.close(),
  }
}

/** The units whose windows must not end during a case. A single call in a second says all. */
function unitsOf({ steps }: ConformanceCase): readonly LimitUnit[] {
  const statuses = steps.map(({ expect: each }) => each.flatMap((status) => unitOf(status) ?? []))
  const units = new Set(statuses.flat())
  if (statuses.filter((each) => each.includes('second')).length < 2) units.delete('second')
  return [...units]
}

const unitOf = (status: string) => /\/(\w+) /.exec(status)?.[1] as LimitUnit | undefined

/** Whether a window ended between two times. */
function hasEnded(units: readonly LimitUnit[], fromMs: number, toMs: number): boolean {
  const windowOf = (ms: number, unit: LimitUnit) => Math.floor(ms / (windowOfUnit(unit) ?? 1))
  return units.some(
    (unit) => windowOf(fromMs - CLOCKS_MS, unit) !== windowOf(toMs + CLOCKS_MS, unit),
  )
}

/** Says of a reset at the end of its window so, instead of the seconds. */
function withEnd(status: string, fromMs: number, toMs: number): string {
  const unit = unitOf(status)
  const windowMs = unit && windowOfUnit(unit)
  const seconds = Number(SECONDS.exec(status)?.[1])
  if (windowMs === undefined || Number.isNaN(seconds)) return status
  const leftAt = (ms: number) => Math.ceil((windowMs - (ms % windowMs)) / SECOND_MS)
  const isEnd = seconds <= leftAt(fromMs - CLOCKS_MS) && seconds >= leftAt(toMs + CLOCKS_MS)
  return isEnd ? status.replace(SECONDS, END) : status
}

function withEnds(answer: StepAnswer, change: (status: string) => string): StepAnswer {
  return 'error' in answer ? answer : { ...answer, statuses: answer.statuses.map(change) }
}

/** Runs a case and compares what was answered; false if a window ended meanwhile. */
async function runCase(server: RunningServer, each: ConformanceCase, suffix: string) {
  const service = openService(server, suffix)
  const units = unitsOf(each)
  if (units.includes('second')) await sleep(SECOND_MS - (Date.now() % SECOND_MS) + CLOCKS_MS)
  const beganMs = Date.now()
  const answers: StepAnswer[] = []
  for (const step of each.steps) {
    const fromMs = Date.now() + (step.waitMs ?? 0)
    const answer = await runStep(service, step)
    const toMs = Date.now()
    answers.push(withEnds(answer, (status) => withEnd(status, fromMs, toMs)))
  }
  if (hasEnded(units, beganMs, Date.now())) return false
  const expected = each.steps.map((step) =>
    withEnds(expectedOf(step), (status) => status.replace(SECONDS, END)),
  )
  expect(answers).toEqual(expected)
  expectMetrics(each, await service.metrics())
  return true
}

describe.each(SERVERS)('envoy.server: %s', (kind) => {
  describe.each(['memory', 'redis'])('%s', (store) => {
    let redis: RedisServer | undefined
    const servers = new Map<Mode, RunningServer>()

    beforeAll(async () => {
      if (store === 'redis') redis = await startRedis()
      const open = async (mode: Mode) => servers.set(mode, await startServer(mode, kind, redis))
      await Promise.all(MODES.map(open))
    })
    closeAfterEach()
    afterAll(async () => {
      await stopAll()
      await redis?.stop()
    })

    testConformance(cases, async (each, counting) => {
      const server = servers.get(modeOf(each))
      if (server === undefined) throw new Error('there is no server')
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (await runCase(server, each, suffixOf(each, counting, attempt))) return
      }
      throw new Error(`a window ended during each of ${ATTEMPTS} attempts`)
    })

    test('a window begins anew at its edge, by the time of the machine', async () => {
      const server = servers.get('plain')
      if (server === undefined) throw new Error('there is no server')
      const service = openService(server, '')
      const descriptor = { entries: [{ key: 'k', value: 'v' }], limit: ONE_PER_SECOND }
      const request = { domain: EDGE_DOMAIN, descriptors: [{ ...DESCRIPTOR, ...descriptor }] }
      const code = async () =>
        (await service.shouldRateLimit({ ...request, hitsAddend: 0 })).overallCode
      await eventually(code).toBe('over-limit')
      await eventually(code).toBe('ok')
    })
  })
})
