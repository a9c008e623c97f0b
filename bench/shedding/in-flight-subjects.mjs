/**
 * The subjects of the half in which calls wait for a resource: each decides a call before it waits.
 * A subject is a function from a call and what is in flight to `undefined` for a refusal, or to
 * what is called when the call has ended.
 */
import { createRequire } from 'node:module'
import { createLimiter } from '../../packages/limiter/dist/index.js'
import { CLASSIFIED } from './setting.mjs'

const require = createRequire(import.meta.url)
const nothing = () => {}

/** Twice what is in flight at a healthy peak, which is all 40 slots. */
const MAX = 80
const LIMIT = {
  id: 'backend',
  by: [],
  limits: [{ algorithm: 'concurrency', max: MAX }],
  coordination: 'node',
  protects: 'capacity',
}
const HEADROOM = { critical: '10%', writes: '10%', reads: '10%' }

function sluice(rule) {
  const limiter = createLimiter({ rules: { ...CLASSIFIED, rules: [rule] } })
  return ({ priority, user }) => {
    const attributes = { method: 'GET', path: `/${priority}`, user }
    const decision = limiter.checkSync({ attributes }, { inFlight: true })
    return decision.allowed ? () => decision.release() : undefined
  }
}

export const subjects = {
  'Sluice, headroom': async () => sluice({ ...LIMIT, headroom: HEADROOM }),
  'Sluice, no priorities': async () => sluice(LIMIT),
  /** Its health check is the only one that can see the calls in flight, as often as it may. */
  'under-pressure': async ({ inFlight, delayMs }) => {
    const { default: fastify } = await import('fastify')
    const { default: underPressure } = await import('@fastify/under-pressure')
    const app = fastify()
    await app.register(underPressure, {
      maxEventLoopDelay: delayMs,
      sampleInterval: 100,
      healthCheck: async () => inFlight() < MAX,
      healthCheckInterval: 10,
    })
    await app.ready()
    return () => (app.isUnderPressure() ? undefined : nothing)
  },
  'overload-protection': async ({ delayMs }) => {
    const protect = require('overload-protection')('http', { maxEventLoopDelay: delayMs })
    return () => (protect.overload ? undefined : nothing)
  },
  'toobusy-js': async ({ delayMs }) => {
    const toobusy = require('toobusy-js')
    toobusy.maxLag(delayMs)
    toobusy.interval(100)
    return () => (toobusy() ? undefined : nothing)
  },
  'no protection': async () => () => nothing,
}
