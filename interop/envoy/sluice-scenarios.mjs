/** What a client of Envoy sees with Sluice behind it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { countStatuses, createClient } from './http-client.mjs'

const LOAD = 10_000
const HASTY = 5_000
const AT_ONCE = 50

/** Envoy reports at the end of a stream, and nobody waits for it. */
const REPORT_MS = 200

/** Resets that Sluice has not read yet may still end a connection, on Node 20. */
const QUIET_MS = 2_000

const generic = (value) => ({ actions: [{ generic_key: { descriptor_value: value } }] })
const tokensAtEnd = {
  ...generic('tokens'),
  hits_addend: { format: '%RESP(x-tokens)%' },
  apply_on_stream_done: true,
}

const ROUTES = [
  { name: 'three', rateLimits: [generic('three')] },
  { name: 'ten', rateLimits: [generic('ten')] },
  { name: 'both', rateLimits: [generic('ten'), generic('three')] },
  { name: 'unknown', rateLimits: [generic('unknown')] },
  { name: 'many', rateLimits: [generic('many')] },
  { name: 'spend', rateLimits: [generic('refunded')] },
  {
    name: 'refund',
    isPerRoute: true,
    rateLimits: [{ ...generic('refunded'), hits_addend: { number: 2, is_negative_hits: true } }],
  },
  {
    name: 'tokens',
    isPerRoute: true,
    rateLimits: [{ ...generic('tokens'), hits_addend: { number: 0 } }, tokensAtEnd],
  },
  { name: 'address', rateLimits: [{ actions: [{ remote_address: {} }] }] },
]

const listener = (name, more) => ({
  name,
  domain: 'configured',
  routes: ROUTES,
  cluster: 'service',
  failureModeDeny: true,
  timeout: '2s',
  // Sluice sends such headers itself.
  withXRateLimit: false,
  ...more,
})

export const SLUICE_LISTENERS = [
  listener('patient', {}),
  listener('doubled', { withXRateLimit: true }),
  listener('native', { domain: 'native' }),
  listener('open', { failureModeDeny: false }),
  listener('hasty', { failureModeDeny: false, timeout: '0.001s' }),
  listener('hasty-closed', { timeout: '0.001s' }),
  listener('stranger', { cluster: 'stranger' }),
]

export async function checkSluice({ envoy, sluice, check, isTls }) {
  const client = createClient(envoy.port('patient'))
  const statusesOf = async (path, count, pauseMs = 0) => {
    const statuses = []
    for (let i = 0; i < count; i++) {
      statuses.push((await client.get(path)).status)
      await sleep(pauseMs)
    }
    return statuses.join(' ')
  }
  const expect = (what, found, wanted) => check(what, found === wanted, found)

  expect('three of three pass', await statusesOf('/three', 4), '200 200 200 429')
  await checkRefusal(client, check)
  expect('a refused request takes nothing', await statusesOf('/both', 3), '429 429 429')
  const { headers } = await client.get('/ten')
  expect('of its other limit', headers['x-ratelimit-remaining'], '9')
  expect('an unknown descriptor passes', await statusesOf('/unknown', 5), '200 200 200 200 200')

  expect('three are spent', await statusesOf('/spend', 4), '200 200 200 429')
  expect('a refund is admitted', await statusesOf('/refund', 1), '200')
  expect('two can be spent again', await statusesOf('/spend', 3), '200 200 429')

  // 120 tokens each: 0, 120 and 240 of 200 are used when they ask.
  const metered = await statusesOf('/tokens', 3, REPORT_MS)
  expect('tokens are counted at the end of the stream', metered, '200 200 429')
  client.close()

  // A choice of both sides that only a person can make; printed so that it is seen.
  const doubled = createClient(envoy.port('doubled'))
  const { headers: twice } = await doubled.get('/ten')
  const own = Object.entries(twice).filter(([name]) => name.startsWith('x-ratelimit'))
  console.log(
    `  note   with those of Envoy in addition: ${JSON.stringify(Object.fromEntries(own))}`,
  )
  doubled.close()

  const native = createClient(envoy.port('native'))
  const statuses = []
  for (let i = 0; i < 4; i++) statuses.push((await native.get('/address')).status)
  expect('rules decide other domains', statuses.join(' '), '200 200 200 429')
  native.close()

  await checkManyCalls({ envoy, check })
  if (isTls) await checkStranger({ envoy, expect, check })
  await sluice.stop()
  const open = await countStatuses(envoy.port('open'), '/three', 20, 1)
  expect('without Sluice failure_mode_deny false admits', JSON.stringify(open), '{"200":20}')
  const closed = await countStatuses(envoy.port('patient'), '/many', 20, 1)
  expect('failure_mode_deny true is 500', JSON.stringify(closed), '{"500":20}')
}

async function checkRefusal(client, check) {
  const refused = await client.get('/three')
  const { headers, body } = refused
  const found = JSON.stringify(refused)
  const isProblem = headers['content-type'] === 'application/problem+json'
  check('a refusal has a problem as its body', isProblem && JSON.parse(body).status === 429, found)
  check('and retry-after once', /^[1-9]\d*$/.test(headers['retry-after']), found)
  check('and the headers RateLimit', headers.ratelimit?.includes('r=0') ?? false, found)
  check('x-ratelimit-remaining is 0, once', headers['x-ratelimit-remaining'] === '0', found)
}

async function checkManyCalls({ envoy, check }) {
  const startMs = performance.now()
  const statuses = await countStatuses(envoy.port('patient'), '/many', LOAD, AT_ONCE)
  const seconds = (performance.now() - startMs) / 1_000
  const name = `${LOAD} requests are admitted (${Math.round(LOAD / seconds)} a second)`
  check(name, statuses[200] === LOAD, JSON.stringify(statuses))
  const before = await connectionsOf(envoy)
  const hasty = await countStatuses(envoy.port('hasty'), '/many', HASTY, AT_ONCE)
  const { timeouts, destroyed } = await connectionsOf(envoy)
  const gone = destroyed - before.destroyed
  const what = `with ${timeouts - before.timeouts} timeouts (${gone} connections ended)`
  check(`${HASTY} requests ${what} are admitted`, hasty[200] === HASTY, JSON.stringify(hasty))
  await checkClosed({ envoy, check })
  await sleep(QUIET_MS)
  const next = await countStatuses(envoy.port('patient'), '/many', 100, 1)
  check('the next calls are answered', next[200] === 100, JSON.stringify(next))
}

/** With failure_mode_deny true, a request whose call failed, as by its timeout, is 500. */
async function checkClosed({ envoy, check }) {
  const name = 'cluster.app.ratelimit.error'
  const errors = async () => (await envoy.stats(`^${name}`))[name] ?? 0
  const before = await errors()
  const closed = await countStatuses(envoy.port('hasty-closed'), '/many', HASTY, AT_ONCE)
  const failed = (await errors()) - before
  const isRight = (closed[500] ?? 0) === failed && (closed[200] ?? 0) + failed === HASTY
  const what = `with failure_mode_deny true, the ${failed} of ${HASTY} that fail are 500`
  check(what, isRight, JSON.stringify(closed))
}

/** Over TLS, a client without a certificate reaches nothing. */
async function checkStranger({ envoy, expect, check }) {
  const statuses = await countStatuses(envoy.port('stranger'), '/many', 20, 1)
  expect('without a client certificate no call is served', JSON.stringify(statuses), '{"500":20}')
  const name = 'cluster.service.ssl.handshake'
  const { [name]: handshakes } = await envoy.stats(`^${name}`)
  check('with one, Envoy has made handshakes', handshakes >= 1, String(handshakes))
}

async function connectionsOf(envoy) {
  const stats = await envoy.stats('^cluster.service.upstream_')
  return {
    timeouts: stats['cluster.service.upstream_rq_timeout'] ?? 0,
    destroyed: stats['cluster.service.upstream_cx_destroy'] ?? 0,
  }
}
