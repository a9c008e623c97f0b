/** Calls through the proxy with long timeouts. */
import { expect } from 'vitest'
import { APP_STATUS } from './upstream-app.test-helper.js'
import { type CallResponse, call, type CallOptions, newCaller } from './http-call.test-helper.js'
import type { ProxySetup } from './proxy-setup.test-helper.js'

export function callThroughProxy(
  setup: ProxySetup,
  target: string,
  from: string,
  options: Omit<CallOptions, 'from'> = {},
): Promise<CallResponse> {
  return call(setup.patient, target, { from, ...options })
}

/** A caller with no capacity left for `/login` that has reached the application once. */
export async function exhaustLogin({ patient }: ProxySetup, port = patient): Promise<string> {
  const from = newCaller()
  expect((await call(port, '/login', { from })).status).toBe(APP_STATUS)
  expect((await call(port, '/login', { from })).status).toBe(429)
  return from
}

const RATE_LIMIT_HEADERS = [
  'ratelimit-policy',
  'ratelimit',
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
]

/** Sluice's rate limit headers in an answer; the application sends one of its own. */
export function rateLimitHeadersIn({ headers }: CallResponse): readonly string[] {
  return RATE_LIMIT_HEADERS.filter(
    (name) => headers[name] !== undefined && headers[name] !== APP_RATELIMIT,
  )
}

const APP_RATELIMIT = '"app";r=1'
