import { describe, expect, test } from 'vitest'
import { closeAfterTests, startAdmin } from './admin.test-helper.js'

closeAfterTests()

const INDEX = '<!doctype html><title>Sluice</title>'
const SCRIPT = 'export const answer = 42\n'.repeat(100)
const FILES = new Map([
  ['/index.html', INDEX],
  ['/assets/main-AbCd1234.js', SCRIPT],
  ['/assets/gate.svg', '<svg/>'],
  ['/secret.env', 'TOKEN=1'],
])

async function startPage(dashboardFiles?: ReadonlyMap<string, string>) {
  const admin = await startAdmin({ deps: (usual) => ({ ...usual, dashboardFiles }) })
  const { url, raw } = await admin.listen()
  const get = async (path: string, headers: Readonly<Record<string, string>> = {}) => {
    const response = await fetch(`${url}${path}`, { headers })
    return { response, text: await response.text() }
  }
  return { get, raw, url }
}

const page = await startPage(FILES)

describe('the dashboard', () => {
  test.each(['/', '/rules', '/rules/per-user', '/login?next=%2Fwhy', '/index.html', '/rules/v1.2'])(
    'serves %s as its page, without a token',
    async (path) => {
      const { response, text } = await page.get(path)
      expect([response.status, text]).toEqual([200, INDEX])
      expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
      expect(response.headers.get('cache-control')).toBe('no-cache')
    },
  )

  test('may load and run only its own files, and in no frame', async () => {
    const asked = ['/', '/assets/main-AbCd1234.js', '/assets/nothing.js']
    for (const path of asked) {
      const { response } = await page.get(path)
      expect(Object.fromEntries(response.headers)).toMatchObject({
        'content-security-policy':
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'permissions-policy': expect.stringContaining('camera=()'),
      })
    }
  })

  test('serves files with a hash in their name as immutable, and compressed', async () => {
    const { response, text } = await page.get('/assets/main-AbCd1234.js')
    expect([response.status, text]).toEqual([200, SCRIPT])
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
      'content-encoding': 'gzip',
      vary: 'Accept-Encoding',
    })
    expect(Number(response.headers.get('content-length'))).toBeLessThan(SCRIPT.length)
  })

  test.each([
    ['identity', null],
    ['gzip;q=0', null],
    ['gzip;q=0.0, br', null],
    ['br, gzip;q=0.5', 'gzip'],
    ['deflate, GZIP', 'gzip'],
  ])('serves a client that accepts %s the encoding %s', async (accepted, encoding) => {
    const path = '/assets/main-AbCd1234.js'
    const { response, text } = await page.get(path, { 'accept-encoding': accepted })
    expect([response.headers.get('content-encoding'), text]).toEqual([encoding, SCRIPT])
  })

  test('answers a client that has the current file with 304', async () => {
    const { response } = await page.get('/')
    const etag = response.headers.get('etag') ?? ''
    expect(etag).toMatch(/^"[\w-]{22}"$/)
    const again = await page.get('/', { 'if-none-match': etag })
    expect([again.response.status, again.text]).toEqual([304, ''])
    expect((await page.get('/', { 'if-none-match': '"other"' })).response.status).toBe(200)
  })

  test('answers weak and multiple ETags of proxies with 304 as well', async () => {
    const etag = (await page.get('/')).response.headers.get('etag') ?? ''
    for (const known of [`W/${etag}`, `"other", ${etag}`, `"other",W/${etag} , "a"`, '*']) {
      expect((await page.get('/', { 'if-none-match': known })).response.status).toBe(304)
    }
    for (const other of [etag.slice(1, -1), `x${etag}x`, '**', `"other" ${etag}`]) {
      expect((await page.get('/', { 'if-none-match': other })).response.status).toBe(200)
    }
  })

  test.each([
    '/assets/other.js',
    '/favicon.ico',
    '/outside.txt',
    '/../outside.txt',
    '/%2e%2e/outside.txt',
    '/assets/../../outside.txt',
    '/assets/..%2f..%2foutside.txt',
  ])('does not serve %s', async (path) => {
    const text = await page.raw(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
    expect(text).toMatch(/^HTTP\/1\.1 404 /)
  })

  test('does not serve a file of an unknown type', async () => {
    expect((await page.get('/secret.env')).text).toBe(INDEX)
  })

  test.each([
    'GET /admin',
    'GET /admin/',
    'GET /admin/v1',
    'GET /admin/v1/rules',
    'GET /admin/v1/nothing',
    'GET /admin/other',
    'POST /',
    'PUT /rules',
    'DELETE /assets/gate.svg',
    'GET //outside.txt',
    'GET //admin/v1/rules',
    'GET http://a/',
    'GET http://a/admin/v1/rules',
  ])('leaves %s to the API, which needs a token', async (line) => {
    const close = 'Connection: close\r\nContent-Length: 0\r\n\r\n'
    const text = await page.raw(`${line} HTTP/1.1\r\nHost: a\r\n${close}`)
    expect(text).toMatch(/^HTTP\/1\.1 401 /)
  })

  test('answers HEAD with the headers', async () => {
    const response = await fetch(`${page.url}/`, { method: 'HEAD' })
    expect([response.status, await response.text()]).toEqual([200, ''])
    expect(response.headers.get('content-length')).toBe(String(INDEX.length))
  })

  test('leaves /metrics unchanged', async () => {
    expect((await page.get('/metrics')).text).toBe('sluice_up 1\n')
  })
})

test('the files that are served by default are those of @sluice/dashboard', async () => {
  const { get } = await startPage()
  const { response, text } = await get('/')
  expect(response.status).toBe(200)
  const [, script = ''] = /<script [^>]*src="([^"]+)"/.exec(text) ?? []
  expect((await get(script)).response.headers.get('content-type')).toContain('text/javascript')
  expect((await get('/runbook.html')).text).toContain('<h2 id="breaker-open">')
})
