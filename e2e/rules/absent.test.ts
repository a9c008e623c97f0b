/** Nodes that start while Postgres is down. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../tools/postgres/server.js'
import { stopAll } from '../process.test-helper.js'
import {
  isStored,
  limitOf,
  liveOnAll,
  liveRule,
  type Node,
  startNode,
} from './rule-nodes.test-helper.js'

const REFUSED = /^no rules yet: postgres [^ ]+: connect ECONNREFUSED/
const POLL = { timeout: 30_000, interval: 100 }

let postgres: PostgresServer
let url: string

beforeEach(async () => {
  postgres = await startPostgres()
  url = await postgres.createDatabase()
})
afterEach(async () => {
  await stopAll()
  await postgres.stop()
})

function callWith(node: Node, key: string): Promise<Response> {
  return fetch(`${node.gateway}/`, { headers: { 'x-api-key': key } })
}

describe('a node that ran before', () => {
  test('starts with its last known good rules and keys, and follows Postgres again when it is back', async () => {
    const env = { SLUICE_DATABASE_URL: url }
    const before = await startNode(env)
    await before.client.createRule(liveRule(2))
    const keys = [
      await before.client.addKey({ user: 'ann' }),
      await before.client.addKey({ user: 'ann' }),
    ]
    await isStored(before, '"live"', ...keys.map(({ id }) => id))
    const version = await before.metric('sluice_rules_version')
    await before.program.stop()
    await postgres.kill()

    const node = await startNode(env, before.folder)
    expect(await node.ready()).toEqual({ code: 200, reasons: [] })
    expect(await node.peekLimit()).toBe(2)
    await expect
      .poll(() => node.logged('using last known good rules until the rule store answers'), POLL)
      .toHaveLength(1)
    const statuses: number[] = []
    // Both are keys of the same user, so the third call with either is over the limit.
    for (const { key = '' } of [...keys, ...keys]) statuses.push((await callWith(node, key)).status)
    expect(statuses).toEqual([200, 200, 429, 429])
    await expect.poll(() => node.metric('sluice_rules_age_seconds'), POLL).toBeGreaterThan(0)
    const fleet = await node.client.listNodes()
    expect(fleet).toMatchObject({
      version,
      news: 'none',
      problem: expect.stringMatching(/postgres/),
    })
    expect(fleet.ageSeconds).toBeGreaterThan(0)

    await postgres.start()
    await expect.poll(() => node.metric('sluice_rules_age_seconds'), POLL).toBe(0)
    await node.client.patchRule('live', { limits: limitOf(5) })
    await liveOnAll([node], 5, 10_000)
  })
})

describe('a node that never ran', () => {
  test('is not ready and decides nothing until Postgres is reachable', async () => {
    await postgres.kill()
    const proxies = { SLUICE_TRUSTED_PROXIES: '127.0.0.1/32' }
    const node = await startNode({ SLUICE_DATABASE_URL: url, ...proxies })
    await expect
      .poll(() => node.ready(), POLL)
      .toEqual({ code: 503, reasons: [expect.stringMatching(REFUSED)] })
    console.log((await node.ready()).reasons[0])
    const call = JSON.stringify({ attributes: { user: 'u1' } })
    const ask = (verb: string) => fetch(`${node.api}/v1/${verb}`, { method: 'POST', body: call })
    const forwarded = { 'x-forwarded-uri': '/', 'x-forwarded-method': 'GET' }
    const answers = [
      await ask('check'),
      await ask('peek'),
      await fetch(`${node.api}/v1/forward-auth`, { headers: forwarded }),
      await fetch(`${node.gateway}/`),
    ]
    const bodies = await Promise.all(answers.map((answer) => answer.json()))
    expect(answers.map(({ status }) => status)).toEqual([503, 503, 503, 503])
    expect(bodies).toEqual(answers.map(() => expect.objectContaining({ error: 'RULES_ABSENT' })))
    await expect(node.client.createRule(liveRule(1))).rejects.toMatchObject({
      status: 503,
      code: 'rules_unavailable',
    })

    await postgres.start()
    // It has no rule yet, which is another reason: calls are decided, and all are allowed.
    await expect.poll(() => node.ready(), POLL).toEqual({ code: 503, reasons: ['no rules'] })
    expect((await fetch(`${node.gateway}/`)).status).toBe(200)
    await node.client.createRule(liveRule(4))
    expect(await node.ready()).toEqual({ code: 200, reasons: [] })
    expect(await node.peekLimit()).toBe(4)
    expect((await fetch(`${node.gateway}/`)).status).toBe(200)
  })
})
