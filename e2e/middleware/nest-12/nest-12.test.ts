/**
 * The Nest module on NestJS 12, which is installed for this test alone: the repository has 11. The
 * packages of Sluice are copied there as they are published, so that they find NestJS 12.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync } from 'node:fs'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { makeFolder, type Program, startProgram, waitFor } from '../../process.test-helper.js'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const APP = fileURLToPath(new URL('app.fixture.mjs', import.meta.url))
const INSTALL_MS_MAX = 600_000

let program: Program
let address = ''

function installSluice(folder: string): void {
  for (const name of ['core', 'limiter']) {
    const target = join(folder, 'node_modules/@sluice', name)
    mkdirSync(target, { recursive: true })
    for (const part of ['package.json', 'dist', 'src']) {
      cpSync(join(ROOT, 'packages', name, part), join(target, part), { recursive: true })
    }
  }
}

beforeAll(async () => {
  const folder = makeFolder()
  for (const file of ['package.json', 'package-lock.json']) {
    cpSync(join(import.meta.dirname, file), join(folder, file))
  }
  cpSync(APP, join(folder, 'app.fixture.mjs'))
  // Dependencies of NestJS 12 ask for Node 22; what is used of them here runs on 20.
  const args = ['ci', '--ignore-scripts', '--prefer-offline', '--engine-strict=false']
  execFileSync('npm', args, { cwd: folder, stdio: 'pipe' })
  installSluice(folder)
  program = startProgram(process.execPath, ['app.fixture.mjs'], { cwd: folder })
  await waitFor(program, () => /^listening \d+$/m.test(program.output()))
  const [, port] = /^listening (\d+)$/m.exec(program.output()) ?? []
  address = `127.0.0.1:${port}`
}, INSTALL_MS_MAX)

afterAll(() => program?.stop())

test('a controller of NestJS 12 refuses the second call as the gateway does', async () => {
  const first = await fetch(`http://${address}/orders`)
  expect([first.status, first.headers.get('x-ratelimit-remaining')]).toEqual([200, '0'])
  const second = await fetch(`http://${address}/orders`)
  expect(second.status).toBe(429)
  expect(second.headers.get('content-type')).toBe('application/problem+json')
  expect(second.headers.get('retry-after')).toMatch(/^\d+$/)
  expect(await second.json()).toMatchObject({ status: 429, error: 'rate_limited' })
})

test('a handler of NestJS 12 with @SkipLimit() is not limited', async () => {
  const { status, headers } = await fetch(`http://${address}/health`)
  expect([status, headers.has('x-ratelimit-limit')]).toEqual([200, false])
})

test('a GraphQL query on NestJS 12 counts each of its aliases', async () => {
  const response = await fetch(`http://${address}/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query: '{ a: hello }' }),
  })
  expect(await response.json()).toEqual({ data: { a: 'hello' } })
  const refused = await fetch(`http://${address}/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query: '{ a: hello b: hello }' }),
  })
  expect(refused.headers.has('retry-after')).toBe(true)
  expect(await refused.json()).toMatchObject({
    errors: [{ extensions: { code: 'RATE_LIMITED', problem: { status: 429 } } }],
  })
})

test('a gateway of NestJS 12 refuses the second message with the problem', async () => {
  const client = new WebSocket(`ws://${address}`)
  await once(client, 'open')
  const received: unknown[] = []
  for (const data of ['a', 'b']) {
    client.send(JSON.stringify({ event: 'say', data }))
    const [message] = (await once(client, 'message')) as [Buffer]
    received.push(JSON.parse(message.toString()))
  }
  client.close()
  expect(received).toEqual([
    { event: 'said', data: 'a' },
    expect.objectContaining({ status: 429, error: 'rate_limited' }),
  ])
})
