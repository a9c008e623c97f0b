/** Real programs as clients: curl, nghttp and h2load, which have HTTP/2 of their own. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findService } from '../../../tools/services.mjs'
import { grpc, PATH } from './conversation.test-helper.js'
import { createUnaryServer, type UnaryServer } from './server.js'

const LATE = '/test.Service/Late'
const HEADERS = ['content-type: application/grpc', 'te: trailers'].flatMap((line) => ['-H', line])

/** No program runs longer, unless it hangs. */
const RUN_MS_MAX = 120_000

let folder: string
let server: UnaryServer
let url: string

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-http2-tools-'))
  writeFileSync(join(folder, 'body'), grpc('hello'))
  server = createUnaryServer({
    methods: { [PATH]: (message) => message, [LATE]: async (message) => message },
    // nghttp tries CONTINUATION with 24 KiB of headers.
    limits: { headerListBytes: 30_000 },
  })
  const { port } = (await server.listen({ host: '127.0.0.1', port: 0 })) as AddressInfo
  url = `http://127.0.0.1:${port}`
})
afterAll(async () => {
  await server.close()
  rmSync(folder, { recursive: true })
})

async function run(program: Parameters<typeof findService>[0], args: readonly string[]) {
  const options = { cwd: folder, timeout: RUN_MS_MAX }
  const { stdout } = await promisify(execFile)(findService(program), args, options)
  return stdout
}

test('curl gets an answer with its trailers', async () => {
  const body = ['--data-binary', '@body', '--output', 'answer', '--dump-header', '-']
  const flags = ['--silent', '--show-error', '--http2-prior-knowledge']
  const printed = await run('curl', [...flags, ...HEADERS, ...body, `${url}${PATH}`])
  expect(printed).toContain('HTTP/2 200')
  expect(printed).toContain('grpc-status: 0')
})

describe('nghttp', () => {
  test.each([
    ['plainly', []],
    ['with CONTINUATION', ['--continuation']],
    ['with padding', ['--padding=200']],
    ['with a weight', ['--weight=3']],
    ['with a window of one byte', ['--window-bits=1', '--connection-window-bits=16']],
    ['without a dynamic table', ['--header-table-size=0']],
    ['with a table that shrinks and grows', ['--header-table-size=0', '--header-table-size=9000']],
    ['several times at once', ['--multiply=20']],
  ])('gets its answers, asking %s', async (_how, flags) => {
    const args = ['--verbose', '--data=body', ...HEADERS, ...flags, `${url}${PATH}`]
    const printed = await run('nghttp', args)
    const count = flags.includes('--multiply=20') ? 20 : 1
    expect(printed.match(/grpc-status: 0/g)).toHaveLength(count)
    expect(printed).not.toMatch(/RST_STREAM|GOAWAY frame <.*error_code=(?!NO_ERROR)/)
  })
})

describe('h2load', () => {
  test.each([
    ['many streams', ['-c4', '-m100', '-n20000']],
    ['many connections', ['-c100', '-m10', '-n20000']],
    ['more streams than the server accepts at once', ['-c1', '-m2000', '-n20000']],
    ['windows of one byte', ['-c2', '-m10', '-n500', '-w1', '-W16']],
    [
      'windows of 1 KiB, and no dynamic table',
      ['-c2', '-m50', '-n5000', '-w10', '--header-table-size=0'],
    ],
  ])('with %s gets every answer', async (_what, flags) => {
    for (const path of [PATH, LATE]) {
      const printed = await run('h2load', [...flags, '-d', 'body', ...HEADERS, `${url}${path}`])
      expect(printed).toMatch(/ 0 failed, 0 errored, 0 timeout/)
      const [, count = ''] = /-n(\d+)/.exec(flags.join(' ')) ?? []
      expect(printed).toContain(`${count} succeeded`)
    }
    expect(server.stats()).toMatchObject({ floods: 0, protocolErrors: 0, streamsRefused: 0 })
  })
})
