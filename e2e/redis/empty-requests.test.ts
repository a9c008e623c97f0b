/** Requests without limits to a real server, between ordinary calls. */
import { expect, test } from 'vitest'
import { shareRedis, startNode } from '../serve-redis.test-helper.js'

const redis = shareRedis()

/** Longer than any machine needs for an answer. */
const DEADLINE_MS = 1000
/** Five consecutive failures open a breaker. */
const QUESTIONS = 8

const RULES = `
rules:
  - id: per-user
    by: [user]
    posture: closed
    limits: [1000/minute]
    tiers: { plan: { partner: [] } }
  - id: trial
    mode: shadow
    by: [ip]
    limits: [1000/minute]
    tiers: { plan: { partner: [] } }
`

test('limits pages, peeks and checks without limits leave the breaker of a healthy Redis closed', async () => {
  const node = await startNode(RULES, {
    SLUICE_REDIS_URL: redis().url,
    SLUICE_STORE_DEADLINE_MS: String(DEADLINE_MS),
  })
  const post = async (path: string, attributes: Record<string, string>) => {
    const body = JSON.stringify({ attributes })
    const response = await fetch(`${node.api}${path}`, { method: 'POST', body })
    return (await response.json()) as { readonly allowed: boolean; readonly source: string }
  }
  const partner = { user: 'partner', ip: '203.0.113.9', plan: 'partner' }
  const questions: readonly (() => Promise<unknown>)[] = [
    () => fetch(`${node.gateway}/_sluice/limits`).then((response) => response.json()),
    () => post('/v1/explain', { path: '/nothing' }),
    () => post('/v1/peek', partner),
    () => post('/v1/check', { ip: '203.0.113.9', plan: 'partner' }),
  ]
  for (const send of questions) {
    // One after the other, so that none can share a batch with another call.
    for (let n = 0; n < QUESTIONS; n++) await send()
    expect(await post('/v1/check', { user: 'u1' })).toMatchObject({
      source: 'store',
      allowed: true,
    })
  }
  const metrics = await (await fetch(`${node.admin}/metrics`)).text()
  expect(metrics).toMatch(/^sluice_breaker_open\{[^}]*\} 0$/m)
  expect(metrics).not.toMatch(/^sluice_degraded_total\{.*\} [1-9]/m)
  expect(metrics).not.toMatch(/^sluice_store_errors_total\{.*deadline.*\} [1-9]/m)
})
