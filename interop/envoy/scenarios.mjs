/** What a client of Envoy sees, and what Envoy and the service count meanwhile. */
import { setTimeout as sleep } from 'node:timers/promises'
import { countStatuses, createClient } from './http-client.mjs'
import { ANSWER_OK, ANSWER_OVER_LIMIT, PROBLEM } from './messages.mjs'

const PATH = '/remote-address'

const LOAD = 10_000
const TIMEOUTS = 1_000
const AT_ONCE = 50

/** Ten times as long as Envoy waits. */
const SILENCE_MS = 200

const DRAIN_MS = 2_000

/** Envoy's counters of what goes wrong on a connection. */
const ERRORS = [
  'upstream_cx_connect_fail',
  'upstream_cx_destroy_remote_with_active_rq',
  'upstream_rq_pending_failure_eject',
  'http2.rx_messaging_error',
  'http2.rx_reset',
  'http2.header_overflow',
  'http2.headers_cb_no_stream',
  'http2.inbound_empty_frames_flood',
  'http2.too_many_header_frames',
]

export async function checkAnswers({ envoy, service, check, unavailable }) {
  service.respond = () => ANSWER_OVER_LIMIT
  const client = createClient(envoy.port('patient'))
  const refused = await client.get(PATH)
  const found = JSON.stringify(refused)
  const { status, headers, body } = refused
  check('a refusal is 429 with our body and its type', status === 429 && body === PROBLEM, found)
  check(
    'a content type of the service replaces that of Envoy',
    headers['content-type'] === 'application/problem+json',
    found,
  )
  check('headers of the service arrive', headers.ratelimit === '"interop";r=0;t=17', found)
  check('Envoy adds retry-after from the status', headers['retry-after'] === '17', found)
  check(
    'Envoy adds x-ratelimit headers from the status',
    headers['x-ratelimit-limit'] === '10, 10;w=60;name="ten"' &&
      headers['x-ratelimit-remaining'] === '0' &&
      headers['x-ratelimit-reset'] === '17',
    found,
  )
  check('Envoy adds x-envoy-ratelimited', headers['x-envoy-ratelimited'] === 'true', found)
  service.respond = () => ANSWER_OK
  const admitted = await client.get(PATH)
  check(
    'an admitted call has x-ratelimit headers and no retry-after',
    admitted.status === 200 &&
      admitted.headers['x-ratelimit-remaining'] === '7' &&
      admitted.headers['retry-after'] === undefined,
    JSON.stringify(admitted),
  )
  client.close()
  service.respond = unavailable
  await checkFailure({ envoy, check }, 'UNAVAILABLE', 20)
  service.respond = () => ANSWER_OK
}

export async function checkLoad({ envoy, service, check }) {
  const before = service.server.stats()
  const startMs = performance.now()
  const statuses = await countStatuses(envoy.port('patient'), PATH, LOAD, AT_ONCE)
  const seconds = (performance.now() - startMs) / 1_000
  const after = service.server.stats()
  const name = `${LOAD} requests are admitted (${Math.round(LOAD / seconds)} a second)`
  check(name, statuses[200] === LOAD, JSON.stringify(statuses))
  const calls = after.calls - before.calls
  check('each is one call, answered once', calls === LOAD, String(calls))
  check(
    'they share one connection',
    after.connectionsAccepted === before.connectionsAccepted,
    String(after.connectionsAccepted),
  )
  await checkErrors({ envoy, service, check })
}

export async function checkTimeouts({ envoy, service, check }) {
  const before = service.server.stats()
  service.respond = () => sleep(SILENCE_MS, ANSWER_OK)
  await checkFailure({ envoy, check }, 'silence', TIMEOUTS)
  await sleep(2 * SILENCE_MS)
  service.respond = () => ANSWER_OK
  const after = service.server.stats()
  const resets = after.resets - before.resets
  // On a busy machine Envoy may reset a stream only after its answer.
  check(`silences are resets of their streams (${resets})`, resets > TIMEOUTS, String(resets))
  check('no handler and no byte is left', after.activeStreams === 0 && after.heldBytes === 0)
  const statuses = await countStatuses(envoy.port('patient'), PATH, 100, 1)
  check('the next calls are answered', statuses[200] === 100, JSON.stringify(statuses))
  const connections = service.server.stats().connectionsAccepted - before.connectionsAccepted
  check('on the same connection', connections === 0, String(connections))
  await checkErrors({ envoy, service, check })
}

/** A successor takes the port at once, as after a restart with a shared port. */
export async function checkDrain({ envoy, service, check }) {
  service.respond = () => sleep(2, ANSWER_OK)
  const load = countStatuses(envoy.port('patient'), PATH, 2_000, AT_ONCE)
  await sleep(300)
  const old = service.server
  const startMs = performance.now()
  await service.replace(DRAIN_MS)
  const drainMs = Math.round(performance.now() - startMs)
  const statuses = await load
  check('a drain costs no call', statuses[200] === 2_000, JSON.stringify(statuses))
  check(`it ends before its time (${drainMs} ms)`, drainMs < DRAIN_MS, String(drainMs))
  const { activeStreams, connections, timeouts } = old.stats()
  const isDone = activeStreams === 0 && connections === 0 && timeouts === 0
  check('the old server has answered all it got', isDone, JSON.stringify(old.stats()))
  // On a fast machine all came before the drain.
  const next = await countStatuses(envoy.port('patient'), PATH, 10, 1)
  check('the new one serves', next[200] === 10 && service.server.stats().calls > 0)
  const stats = await envoy.stats('^cluster.service.upstream_cx_close_notify')
  const notified = stats['cluster.service.upstream_cx_close_notify']
  check('Envoy saw GOAWAY', notified >= 1, String(notified))
  // Envoy closes a connection after the last answer that follows GOAWAY, and counts that as one:
  // https://github.com/envoyproxy/envoy/issues/21522.
  await checkErrors({ envoy, service, check, protocolErrors: 1 })
  service.respond = () => ANSWER_OK
}

/** With a service that fails, in each of Envoy's modes. */
async function checkFailure({ envoy, check }, what, count) {
  const open = await countStatuses(envoy.port('open'), PATH, count, AT_ONCE)
  check(`${what}: failure_mode_deny false admits`, open[200] === count, JSON.stringify(open))
  const closed = await countStatuses(envoy.port('closed'), PATH, count, AT_ONCE)
  check(`${what}: failure_mode_deny true is 500`, closed[500] === count, JSON.stringify(closed))
}

async function checkErrors({ envoy, service, check, protocolErrors: expected = 0 }) {
  const counted = await envoy.stats('^cluster.service')
  const violations = counted['cluster.service.upstream_cx_protocol_error']
  check('Envoy sees no violation of HTTP/2', violations <= expected, String(violations))
  const found = ERRORS.filter((name) => counted[`cluster.service.${name}`] > 0)
  check('Envoy counts no error of the connection', found.length === 0, found.join(', '))
  const { protocolErrors, floods, timeouts, streamsRefused, pauses } = service.server.stats()
  check(
    'nor does the service',
    [protocolErrors, floods, timeouts, streamsRefused, pauses].every((count) => count === 0),
    JSON.stringify(service.server.stats()),
  )
}
