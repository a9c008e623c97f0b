import { dirname } from 'node:path'
import { env } from 'node:process'
import { afterEach, describe, expect, test } from 'vitest'
import { answer, cleanAfterTests, sluice, startAdmin, tempFile } from './cli.test-helper.js'

cleanAfterTests()

const NAMES = ['SLUICE_ADMIN_URL', 'SLUICE_ADMIN_TOKEN', 'SLUICE_DATA_DIR']
const before = NAMES.map((name) => [name, env[name]] as const)
const restore = () => {
  for (const [name, value] of before) {
    if (value === undefined) delete env[name]
    else env[name] = value
  }
}
afterEach(restore)

describe('the server and the token', () => {
  const routes = { 'GET /tokens': answer({ tokens: [] }) }

  test('come from the environment', async () => {
    const admin = await startAdmin(routes)
    env['SLUICE_ADMIN_URL'] = admin.url
    env['SLUICE_ADMIN_TOKEN'] = 'of-the-environment'
    expect(await sluice(['tokens', 'list'])).toMatchObject({ code: 0 })
    expect(admin.requests[0]?.token).toBe('Bearer of-the-environment')
  })

  test('come from the data directory of a server on this machine', async () => {
    const admin = await startAdmin(routes)
    delete env['SLUICE_ADMIN_TOKEN']
    env['SLUICE_DATA_DIR'] = dirname(tempFile('admin-token', 'of-the-folder\n'))
    expect(await sluice(['tokens', 'list', '--url', admin.url])).toMatchObject({ code: 0 })
    expect(admin.requests[0]?.token).toBe('Bearer of-the-folder')
  })

  test('come from a named file before both', async () => {
    const admin = await startAdmin(routes)
    env['SLUICE_ADMIN_TOKEN'] = 'of-the-environment'
    await admin.run(['tokens', 'list'])
    expect(admin.requests[0]?.token).toBe('Bearer a-token-of-tests')
  })

  test('fail with a message that says where a token was looked for', async () => {
    const admin = await startAdmin({
      'GET /tokens': { status: 401, body: { error: 'unauthorized', detail: 'Send a token.' } },
    })
    delete env['SLUICE_ADMIN_TOKEN']
    env['SLUICE_DATA_DIR'] = '/nowhere'
    const { code, err } = await sluice(['tokens', 'list', '--url', admin.url])
    expect(code).toBe(2)
    expect(err).toContain('found no token (SLUICE_ADMIN_TOKEN is not set, and ENOENT')
    expect(err).toContain('/nowhere/admin-token')
  })
})
