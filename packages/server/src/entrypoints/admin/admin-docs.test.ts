/** Compares docs/reference/admin-api.md with what is served. */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { EDIT_ERRORS } from '../../rules/editor/edit-errors.js'
import { closeAfterTests, startAdmin } from './admin.test-helper.js'
import { ADMIN_PROBLEMS } from './admin-error.js'

closeAfterTests()

const page = readFileSync(
  new URL('../../../../../docs/reference/admin-api.md', import.meta.url),
  'utf8',
)
const admin = await startAdmin()
const routes = admin
  .routes()
  .map(({ method, path }) => ({ method, path: path.replace('/admin/v1', '') }))

describe('admin-api.md', () => {
  test('lists every route in its table, and no other', () => {
    const rows = [...page.matchAll(/^\| `([A-Z]+) (\/\S+)` +\|/gm)]
    const documented = rows.map(([, method, path]) => `${method} ${path}`)
    const served = routes.map(({ method, path }) => `${method} ${path}`)
    expect(documented.toSorted()).toEqual(served.toSorted())
  })

  test.each(routes)('has an example of $method $path', ({ method, path }) => {
    const spelled = path
      .replaceAll(/[.]/g, '\\.')
      .replaceAll(/\{\w+\}/g, '[^/"?]+')
      .concat('["?]')
    const lines = page.split('\n').filter((line) => new RegExp(`ADMIN${spelled}`).test(line))
    const methods = lines.map((line) => {
      const said = / -X ([A-Z]+)/.exec(line)?.[1]
      return said ?? (/ (-d|--data-binary) /.test(line) ? 'POST' : 'GET')
    })
    if (path === '/openapi.json') expect(page).toContain('`/admin/v1/openapi.json`')
    else expect(methods).toContain(method)
  })

  test('lists every code that `error` may have, with its status', () => {
    const rows = [...page.matchAll(/^\| `(\w+)` +\| (\d{3}) +\|/gm)]
    const documented = rows.map(([, word, status]) => [word, Number(status)])
    const known = Object.entries({ ...EDIT_ERRORS, ...ADMIN_PROBLEMS })
    expect(Object.fromEntries(documented)).toEqual(Object.fromEntries(known))
  })
})
