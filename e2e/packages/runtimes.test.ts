/**
 * `@sluice/limiter/fetch` as it is packed, on real Fetch runtimes: Bun, Deno, workerd (the runtime
 * of Cloudflare Workers) and Next.js. Each is used as its own documentation says, with the memory
 * limiter, and answers as the gateway does.
 */
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { build } from 'esbuild'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { freePort } from '../../tools/ports.mjs'
import {
  listensOn,
  makeFolder,
  type Program,
  startProgram,
  stopAll,
  waitFor,
} from '../process.test-helper.js'
import { start } from '../serve.test-helper.js'
import { packAll, run } from './packages.test-helper.js'

/** The runtimes have some 700 MB. */
const INSTALL_MS_MAX = 900_000

/** Has the packed library and every runtime. */
let app: string

beforeAll(async () => {
  // Next.js would report that it was used.
  vi.stubEnv('NEXT_TELEMETRY_DISABLED', '1')
  const archives = await packAll('without scripts')
  app = makeFolder()
  for (const file of ['package.json', 'package-lock.json']) {
    cpSync(join(import.meta.dirname, 'runtimes', file), join(app, file))
  }
  const own = ['@sluice/core', '@sluice/limiter'].map((name) => archives.get(name) ?? '')
  const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline']
  await run('npm', ['install', ...flags, ...own], app)
}, INSTALL_MS_MAX)
afterAll(stopAll)

const RULES = "[{ id: 'per-address', by: ['ip'], limits: ['1/day'] }]"

const limited = (address: string) => `
import { sluice } from '@sluice/limiter/fetch'
const limited = sluice({ rules: ${RULES}, address: '${address}' })
`
const HANDLER = '(request, decision) => new Response(`${decision.remaining} calls left`)'

function write(name: string, text: string): string {
  const file = join(app, name)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
  return file
}

const binary = (path: string) => join(app, 'node_modules', path)

/** Headers that are compared. Times differ by when a call was made. */
const COMPARED = ['content-type', 'cache-control', 'ratelimit-policy', 'x-ratelimit-remaining']

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | null>>
  readonly body: string
}

async function answerOf(url: string): Promise<Answer> {
  // As the platforms write the address of a client. The others use the socket.
  const headers = { 'cf-connecting-ip': '203.0.113.1', 'x-real-ip': '203.0.113.1' }
  const response = await fetch(url, { headers })
  const body = await response.text()
  const sent = COMPARED.map((name) => [name, response.headers.get(name)] as const)
  return {
    status: response.status,
    headers: Object.fromEntries(sent),
    body: body.replaceAll(/(after |_seconds":)\d+/g, '$1…'),
  }
}

/** What the gateway answers to a call over the same limit. */
async function gatewayRefusal(): Promise<Answer> {
  const folder = makeFolder()
  writeFileSync(join(folder, 'rules.yaml'), `rules: ${RULES}`)
  const { program, gateway } = await start({ SLUICE_RULES: 'rules.yaml' }, folder)
  await answerOf(`${gateway}/v1/orders`)
  const refusal = await answerOf(`${gateway}/v1/orders`)
  await program.stop()
  return refusal
}

async function expectLimit(url: string, firstBody: string): Promise<void> {
  const first = await answerOf(url)
  expect(first).toMatchObject({
    status: 200,
    headers: { 'ratelimit-policy': '"per-address";q=1;w=86400', 'x-ratelimit-remaining': '0' },
    body: firstBody,
  })
  const second = await answerOf(url)
  expect(second.status).toBe(429)
  expect(second).toEqual(await gatewayRefusal())
}

async function expectServer(port: number, program: Program): Promise<void> {
  await waitFor(program, () => listensOn(port))
  await expectLimit(`http://127.0.0.1:${port}/v1/orders`, '0 calls left')
  await program.stop()
}

test('a server of Bun answers a call over the limit as the gateway does', async () => {
  const port = await freePort()
  const server = `Bun.serve({ hostname: '127.0.0.1', port: ${port}, fetch: limited(${HANDLER}) })`
  const file = write('bun.mjs', limited('bun') + server)
  await expectServer(
    port,
    startProgram(binary('@oven/bun-linux-x64/bin/bun'), [file], { cwd: app }),
  )
})

test('a server of Deno answers a call over the limit as the gateway does', async () => {
  const port = await freePort()
  const server = `Deno.serve({ hostname: '127.0.0.1', port: ${port} }, limited(${HANDLER}))`
  const file = write('deno.mjs', limited('deno') + server)
  // Without rights to read files, the environment or processes.
  const args = ['run', '--no-prompt', '--node-modules-dir=manual', '--allow-net=127.0.0.1', file]
  const env = { DENO_DIR: join(app, '.deno'), DENO_NO_UPDATE_CHECK: '1' }
  await expectServer(
    port,
    startProgram(binary('@deno/linux-x64-glibc/deno'), args, { cwd: app, env }),
  )
})

const workerConfig = (port: number) => `
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = (
    modules = [(name = "worker", esModule = embed "worker.js")],
    compatibilityDate = "2026-01-01",
  ))],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
`

test('a Worker answers a call over the limit as the gateway does', async () => {
  const port = await freePort()
  const program = `${limited('cloudflare')}export default { fetch: limited(${HANDLER}) }`
  // Workers are uploaded as one file. A module of Node would fail this build.
  await build({
    stdin: { contents: program, resolveDir: app },
    bundle: true,
    platform: 'neutral',
    format: 'esm',
    outfile: join(app, 'worker.js'),
    logLevel: 'silent',
  })
  const config = write('config.capnp', workerConfig(port))
  await expectServer(
    port,
    startProgram(binary('@cloudflare/workerd-linux-64/bin/workerd'), ['serve', config], {
      cwd: app,
    }),
  )
})

test('a route handler and proxy of Next.js answer a call over the limit as the gateway does', async () => {
  write(
    'site/app/handler/[id]/route.js',
    `${limited('vercel')}
export const GET = limited(async (request, decision, { params }) =>
  new Response(\`\${(await params).id}: \${decision.remaining} calls left\`))`,
  )
  write(
    'site/proxy.js',
    `${limited('vercel')}
import { NextResponse } from 'next/server'
export const proxy = limited(() => NextResponse.next())
export const config = { matcher: '/behind-proxy' }`,
  )
  write('site/app/behind-proxy/route.js', "export const GET = () => new Response('behind')")
  // Else Next.js takes the folder above with a lock as the root of the project.
  write('site/next.config.mjs', `export default { turbopack: { root: ${JSON.stringify(app)} } }`)
  const site = join(app, 'site')
  const next = binary('next/dist/bin/next')
  await run(process.execPath, [next, 'build'], site)
  const port = await freePort()
  const args = [next, 'start', '--hostname', '127.0.0.1', '--port', String(port)]
  const program = startProgram(process.execPath, args, { cwd: site })
  await waitFor(program, () => listensOn(port))
  await expectLimit(`http://127.0.0.1:${port}/handler/7`, '7: 0 calls left')
  await expectLimit(`http://127.0.0.1:${port}/behind-proxy`, 'behind')
  await program.stop()
})
