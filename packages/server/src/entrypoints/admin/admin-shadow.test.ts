/** Tests temporary shadow over HTTP. */
import { expect, test } from 'vitest'
import { closeAfterTests, startAdmin } from './admin.test-helper.js'

closeAfterTests()

const RULE = '/rules/per-user'

test('one call puts all rules in shadow, as the list and each rule show, and one ends it', async () => {
  const admin = await startAdmin()
  const begun = await admin.request('POST', '/shadow?why=INC-7', { for: '15m' })
  expect(begun).toMatchObject({ status: 200, body: { rule: null, until: expect.any(String) } })
  const { until } = begun.body as { readonly until: string }
  expect((await admin.request('GET', '/rules')).body).toMatchObject({
    shadowUntil: until,
    rules: [{ id: 'per-user', shadowUntil: until }],
  })
  const { body } = await admin.request('GET', RULE)
  expect(body).toMatchObject({ shadowUntil: until })
  // A rule that was read can be sent back.
  expect(await admin.request('PUT', RULE, body)).toMatchObject({ status: 200 })
  expect((await admin.request('GET', '/versions?limit=1')).body).toMatchObject({
    versions: [{ why: 'INC-7', changes: [{ kind: 'set', after: { shadow: { all: { until } } } }] }],
  })
  expect(await admin.request('DELETE', '/shadow')).toMatchObject({ status: 200 })
  expect((await admin.request('GET', '/rules')).body).toMatchObject({ shadowUntil: null })
  expect((await admin.request('GET', RULE)).body).not.toHaveProperty('shadowUntil')
})

test('one rule is in shadow until its expiry or until its mode is set', async () => {
  const admin = await startAdmin()
  const begun = await admin.request('POST', '/shadow', { for: '1h', rule: 'per-user' })
  expect(begun).toMatchObject({ status: 200, body: { rule: 'per-user' } })
  expect((await admin.request('GET', '/rules')).body).toMatchObject({
    shadowUntil: null,
    rules: [{ shadowUntil: expect.any(String) }],
  })
  expect(await admin.request('DELETE', '/shadow?rule=per-user')).toMatchObject({ status: 200 })
  expect((await admin.request('GET', RULE)).body).not.toHaveProperty('shadowUntil')
  await admin.request('POST', '/shadow', { for: '1h', rule: 'per-user' })
  await admin.request('PATCH', RULE, { mode: 'enforce' })
  expect((await admin.request('GET', RULE)).body).not.toHaveProperty('shadowUntil')
})

test.each([
  [{}, 400],
  [{ for: '30s' }, 400],
  [{ for: 15 }, 400],
  [{ for: '15m', rules: ['per-user'] }, 400],
  [{ for: '15m', rule: 'nothing' }, 404],
])('a shadow requested as %j is answered with %i', async (body, status) => {
  const admin = await startAdmin()
  expect(await admin.request('POST', '/shadow', body)).toMatchObject({ status })
})
