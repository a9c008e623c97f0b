/** Checks that the limited path is the served path, whatever target is sent. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestServer, type TestServer } from '../../src/serve.test-helper.js'
import {
  fuzzTargets,
  type Route,
  routeOfCareless,
  routeOfRaw,
  routeOfStandard,
} from './path-fuzz.test-helper.js'
import { type PipelinedResponse, pipeline } from './pipeline.test-helper.js'

const TARGETS = 100_000
/** Targets that one test sends: few enough for the time that a busy machine gives a test. */
const PART = 10_000
const SEED = 20_261_016
/** Far above the number of requests; the smaller limit is the one that a decision names. */
const LIMIT = { max: 1_000_000, window: '1s' }
const LIMIT_OF_ALL = { max: 1_000_000_000, window: '1s' }
const RULES = [
  { id: 'login', match: { path: '/login' }, by: [], limits: [LIMIT] },
  { id: 'admin', match: { path: '/admin/*' }, by: [], limits: [LIMIT] },
  { id: 'orders', match: { path: '/v1/orders/:id' }, by: [], limits: [LIMIT] },
  { id: 'other', by: [], limits: [LIMIT_OF_ALL] },
]

const NO_ANSWER: PipelinedResponse = { status: 0, head: '' }

/** The targets that the upstream received, by the number of the request. */
const served = new Map<number, string[]>()
const upstream = createServer((request, response) => {
  const id = Number(request.headers['x-case'])
  served.set(id, [...(served.get(id) ?? []), request.url ?? ''])
  response.end('ok')
})
let server: TestServer

beforeAll(async () => {
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  const { port } = upstream.address() as AddressInfo
  server = await startTestServer({
    rules: RULES,
    env: { SLUICE_UPSTREAM: `http://127.0.0.1:${port}` },
  })
})

afterAll(async () => {
  upstream.closeAllConnections()
  await server.close()
  await new Promise((resolve) => upstream.close(resolve))
})

/** The rule that charged a call, in addition to the one for all paths. */
function chargedIn(head: string): Route | undefined {
  const policy = /^ratelimit-policy: (.*)$/im.exec(head)?.[1] ?? ''
  const names = [...policy.matchAll(/"([a-z]+)"/g)].map(([, name]) => name as Route)
  if (!names.includes('other') || names.length > 2) return undefined
  return names.find((name) => name !== 'other') ?? 'other'
}

/** The problem of a response; undefined if gateway, limiter and upstream agree. */
function findMismatch(
  { status, head }: PipelinedResponse,
  urls: readonly string[],
): string | undefined {
  const [url, ...more] = urls
  if (status === 400) return url === undefined ? undefined : 'refused, and served'
  if (status !== 200) return `status ${status}`
  if (url === undefined || more.length > 0) return `served ${urls.length} times`
  const charged = chargedIn(head)
  if (charged === undefined) return 'charged to nothing'
  if (routeOfCareless(url) !== charged) return `careless: ${routeOfCareless(url)}, not ${charged}`
  if (routeOfStandard(url) !== charged) return `standard: ${routeOfStandard(url)}, not ${charged}`
  // A server that does not decode may serve `/%6cogin` as `other`, but as no other limited route.
  const raw = routeOfRaw(url)
  return raw === charged || raw === 'other' ? undefined : `raw: ${raw}, not ${charged}`
}

const targets = fuzzTargets(TARGETS, SEED)
const firsts = Array.from({ length: TARGETS / PART }, (_, part) => part * PART)
const sent = new Map<number, Promise<readonly PipelinedResponse[]>>()

/** The responses to the targets from `first` on, which are sent once. */
function answersFrom(first: number): Promise<readonly PipelinedResponse[]> {
  const known = sent.get(first)
  if (known !== undefined) return known
  const requests = targets
    .slice(first, first + PART)
    .map(
      (target, at) => `GET ${target} HTTP/1.1\r\nHost: a.example\r\nX-Case: ${first + at}\r\n\r\n`,
    )
  const answers = pipeline(server.gatewayPort, requests, { connections: 4, depth: 32 })
  sent.set(first, answers)
  return answers
}

describe.each(firsts)('of 10^5 fuzzed targets, in the ten thousand from %i on', (first) => {
  const part = targets.slice(first, first + PART)

  test('none is charged to another route than the upstream serves', async () => {
    const answers = await answersFrom(first)
    const mismatches = part.flatMap((target, at) => {
      const found = findMismatch(answers[at] ?? NO_ANSWER, served.get(first + at) ?? [])
      return found === undefined ? [] : [`${JSON.stringify(target)}: ${found}`]
    })
    expect(mismatches.slice(0, 20)).toEqual([])
    expect(mismatches).toHaveLength(0)
  })

  test('the decision API charges the same rule, and refuses the same paths', async () => {
    const answers = await answersFrom(first)
    const mismatches: string[] = []
    for (let from = 0; from < PART; from += 1000) {
      const batch = part.slice(from, from + 1000)
      const decisions = await checkPaths(batch)
      for (const [at, target] of batch.entries()) {
        const { status, head } = answers[from + at] ?? NO_ANSWER
        const { rule, error } = decisions[at] ?? {}
        const chargedRule = status === 200 ? chargedIn(head) : 'CALL_PATH_INVALID'
        // An absolute URL names a host, which the gateway compares and a call does not have.
        const isForeign = status === 400 && !target.startsWith('/')
        if (chargedRule !== (error ?? rule) && !isForeign) {
          mismatches.push(
            `${JSON.stringify(target)}: ${chargedRule} at the gateway, not ${error ?? rule}`,
          )
        }
      }
    }
    expect(mismatches.slice(0, 20)).toEqual([])
  })
})

async function checkPaths(
  paths: readonly string[],
): Promise<readonly { readonly rule?: string; readonly error?: string }[]> {
  const calls = paths.map((path) => ({ attributes: { method: 'GET', path } }))
  const response = await fetch(`${server.api}/v1/check`, {
    method: 'POST',
    body: JSON.stringify(calls),
  })
  return (await response.json()) as { rule?: string; error?: string }[]
}

test('the targets would have bypassed a limiter that compares raw paths', async () => {
  const answers: PipelinedResponse[] = []
  for (const first of firsts) answers.push(...(await answersFrom(first)))
  const dodged = targets.filter((target) => {
    const route = routeOfCareless(target)
    return route !== 'other' && routeOfRaw(target) !== route
  })
  expect(dodged.length).toBeGreaterThan(10_000)
  const statuses = new Set(answers.map(({ status }) => status))
  expect(statuses).toEqual(new Set([200, 400]))
  const admitted = answers.filter(({ status }) => status === 200).map(({ head }) => chargedIn(head))
  for (const route of ['login', 'admin', 'orders', 'other'] as const) {
    expect(admitted.filter((charged) => charged === route).length).toBeGreaterThan(1000)
  }
})
