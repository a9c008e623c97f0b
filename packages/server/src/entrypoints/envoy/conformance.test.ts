/** The conformance suite of the service, with its counters in this process. */
import { envoyConformance } from './conformance.test-helper.js'
import { openService } from './rate-limit-service.test-helper.js'

envoyConformance(async ({ config, isQuota, isShadow, requireMatch }, counting) => {
  const domains = new Map(config.map(({ domain }) => [domain, { counting, requireMatch }] as const))
  const options = { config, domains, isQuota, isShadow, sendsMetadata: true }
  const { service, clock, registry, close } = await openService(options)
  return {
    shouldRateLimit: (request) => service.shouldRateLimit(request, { timeoutMs: undefined }),
    advance: (ms) => clock.advance(ms),
    metrics: () => registry.text(),
    close,
  }
})
