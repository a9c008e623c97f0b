/** Sends the request of each case through Envoy and collects the calls that it makes. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from './http-client.mjs'
import { ANSWER_OK, ANSWER_OVER_LIMIT } from './messages.mjs'
import { CASES } from './recorded-cases.mjs'

const CALLS_MS_MAX = 5_000

/** After the expected calls: none may follow. */
const QUIET_MS = 100

export async function recordCases({ port, service, upstream, check }) {
  const recorded = []
  for (const one of CASES) {
    service.calls.length = 0
    service.respond = () =>
      one.isRefused && service.calls.length === 1 ? ANSWER_OVER_LIMIT : ANSWER_OK
    const client = createClient(port)
    const controller = new AbortController()
    upstream.onSlow = () => controller.abort()
    const { signal } = controller
    const answer = await client.get(`/${one.name}`, one.headers, signal).catch(() => undefined)
    client.close()
    const endMs = performance.now() + CALLS_MS_MAX
    while (service.calls.length < one.calls && performance.now() < endMs) await sleep(10)
    await sleep(QUIET_MS)
    const { name, says, isPerRoute, headers, rateLimits } = one
    recorded.push({
      name,
      says,
      configuredIn: isPerRoute ? 'RateLimitPerRoute' : 'route',
      rateLimits,
      headers,
      status: answer?.status,
      calls: service.calls.map(({ bytes, request }) => ({ bytes, request })),
    })
    const hasHead = ({ hasDeadline, metadata }) => hasDeadline && metadata.length === 3
    check(`${name}: deadline and headers`, service.calls.every(hasHead))
    const found = service.calls.length
    check(`${name}: calls`, found === one.calls, String(found))
  }
  service.respond = () => ANSWER_OK
  return recorded
}
