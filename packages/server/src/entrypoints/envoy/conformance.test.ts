/** The conformance suite of the service, with its counters in this process. */
import { envoyConformance } from './conformance.test-helper.js'
import { openService } from './rate-limit-service.test-helper.js'

envoyConformance(async ({ config, isQuota, isShadow, requireMatch }, counting) => {
  const domains = new Map(config.map(({ domain }) => [domain, { counting, requireMatch }] as const))
  const { service, clock, close } = await openService({ config, domains, isQuota, isShadow })
  return {
    shouldRateLimit: (request) => service.shouldRateLimit(request, { timeoutMs: undefined }),
    advance: (ms) => clock.advance(ms),
    close,
  }
})
