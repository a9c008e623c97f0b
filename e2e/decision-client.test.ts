/** The decision client of @sluice/client against a real server. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createDecisionClient, DecisionError, UnreachableError } from '@sluice/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeFolder, stopAll } from './process.test-helper.js'
import { type RunningServer, start } from './serve.test-helper.js'

const API_TOKEN = 'e2e-api-token-of-a-hundred-and-twenty-eight-bits'
const ADMIN_TOKEN = 'e2e-admin-token-of-a-hundred-and-twenty-eight-bits'
const RULES = `
rules:
  - { id: per-user, by: [user], limits: [2/day] }
  - { id: orders, match: { path: /v1/orders }, by: [user], limits: [9/day] }
`

let server: RunningServer
beforeAll(async () => {
  const folder = makeFolder()
  writeFileSync(join(folder, 'rules.yaml'), RULES)
  server = await start(
    {
      SLUICE_RULES: 'rules.yaml',
      SLUICE_API_TOKEN: API_TOKEN,
      SLUICE_ADMIN_TOKEN: ADMIN_TOKEN,
      SLUICE_DATA_DIR: join(folder, 'data'),
    },
    folder,
  )
})
afterAll(stopAll)

const clientOf = (token?: string) => createDecisionClient({ url: server.api, token })
const callOf = (user: string) => ({ attributes: { user } })

describe('the decision client', () => {
  test('checks until the limit is used up, and a refund by receipt gives a unit back', async () => {
    const client = clientOf(API_TOKEN)
    const first = await client.check({ ...callOf('u1'), receipt: true })
    expect(first).toMatchObject({ allowed: true, rule: 'per-user', remaining: 1, source: 'store' })
    expect(await client.check(callOf('u1'))).toMatchObject({ allowed: true, remaining: 0 })
    const refused = await client.check(callOf('u1'))
    expect(refused).toMatchObject({ allowed: false, reason: 'over' })
    expect(refused.retryAfterMs).toBeGreaterThan(0)
    await client.refund({ receipt: first.receipt ?? '' })
    expect(await client.peek(callOf('u1'))).toMatchObject({ allowed: true, remaining: 1 })
  })

  test('explains which rules match', async () => {
    const { explain } = await clientOf(API_TOKEN).explain(callOf('u2'))
    expect(explain).toMatchObject([
      { rule: 'per-user', matched: true, limits: [{ limit: 2 }] },
      { rule: 'orders', matched: false },
    ])
  })

  test('decides a list in order, and a call that fails has no effect on the others', async () => {
    const bad = { attributes: { user: 'u3', path: '/a/../b' } }
    const results = await clientOf(API_TOKEN).checkMany([
      callOf('u3'),
      bad,
      callOf('u3'),
      callOf('u3'),
    ])
    expect(results[1]).toBeInstanceOf(DecisionError)
    expect(results).toMatchObject([
      { allowed: true },
      { status: 400, code: 'CALL_PATH_INVALID' },
      { allowed: true },
      { allowed: false },
    ])
  })

  test('resets a caller and refunds by attributes only with the admin token', async () => {
    const client = clientOf(API_TOKEN)
    await client.check({ ...callOf('u4'), cost: 2 })
    const forbidden = { status: 403, code: 'forbidden' }
    await expect(client.reset(callOf('u4'))).rejects.toMatchObject(forbidden)
    await expect(client.refund(callOf('u4'))).rejects.toMatchObject(forbidden)
    await clientOf(ADMIN_TOKEN).refund(callOf('u4'))
    expect(await client.peek(callOf('u4'))).toMatchObject({ remaining: 1, allowed: true })
    await clientOf(ADMIN_TOKEN).reset({ ...callOf('u4'), rule: 'per-user' })
    expect(await client.peekMany([callOf('u4')])).toMatchObject([{ remaining: 2 }])
  })

  test('rejects with the code of the problem for a wrong token, and for a call that is none', async () => {
    const wrong = { status: 401, code: 'unauthorized' }
    await expect(clientOf('wrong').check(callOf('u5'))).rejects.toMatchObject(wrong)
    await expect(clientOf().check(callOf('u5'))).rejects.toMatchObject(wrong)
    await expect(clientOf(API_TOKEN).check({ ...callOf('u5'), cost: -1 })).rejects.toMatchObject({
      status: 400,
      code: 'CALL_COST_INVALID',
    })
  })

  test('is ended by its timeout while the server does not answer', async () => {
    server.program.signal('SIGSTOP')
    try {
      const failure = clientOf(API_TOKEN).check(callOf('u6'), { timeoutMs: 100 })
      await expect(failure).rejects.toBeInstanceOf(UnreachableError)
    } finally {
      server.program.signal('SIGCONT')
    }
  })
})
