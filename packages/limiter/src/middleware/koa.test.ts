import type { AddressInfo } from 'node:net'
import Koa from 'koa'
import { expect, test } from 'vitest'
import { sluice } from './koa.js'

const perUser = (id: string) =>
  sluice<Koa.Context>({
    rules: [{ id, by: ['user'], limits: ['9/hour'] }],
    attributes: (context) => ({ user: context.get('x-user') }),
    logger: { warn: () => {}, error: () => {} },
  })

/** The headers of the answers to one call of each user, whose handler throws this error. */
async function headersOf(error: Error, users: readonly string[], ...ids: readonly string[]) {
  const app = new Koa()
  app.silent = true
  for (const id of ids) app.use(perUser(id))
  app.use(() => {
    throw error
  })
  const server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  const found: Headers[] = []
  for (const user of users) {
    const response = await fetch(`http://127.0.0.1:${port}/`, { headers: { 'x-user': user } })
    await response.text()
    found.push(response.headers)
  }
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  return found
}

const gone = (headers?: Record<string, string>) =>
  Object.assign(new Error('gone'), { status: 410, ...(headers && { headers }) })

test('an error that is thrown for several requests has the headers of each', async () => {
  const answers = await headersOf(gone({ 'x-own': 'kept' }), ['ann', 'ann', 'bob'], 'per-user')
  expect(answers.map((headers) => headers.get('x-ratelimit-remaining'))).toEqual(['8', '7', '8'])
  expect(answers.map((headers) => headers.get('x-own'))).toEqual(['kept', 'kept', 'kept'])
})

test('an error has the headers of the inner middleware, as an answer would', async () => {
  const answers = await headersOf(gone(), ['ann', 'bob'], 'outer', 'inner')
  const policies = answers.map((headers) => headers.get('ratelimit-policy'))
  expect(policies).toEqual(['"inner";q=9;w=3600', '"inner";q=9;w=3600'])
})
