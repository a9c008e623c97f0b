/** An admin API over a rule store in memory, called directly or on a socket of its own. */
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { createLimiter } from '@sluice/limiter'
import { manualClock } from '@sluice/limiter/testing'
import { afterAll } from 'vitest'
import { createDecider } from '../../decide.js'
import { createEditor } from '../../rules/editor/editor.js'
import type { Editor } from '../../rules/editor/editor.js'
import { SECRET } from '../../identity/identify.test-helper.js'
import { createSecretMasker } from '../../identity/masked-value.js'
import { createMemoryLog, type MemoryLog } from '../../observability/log/memory-log.test-helper.js'
import { memoryRuleStore } from '../../rules/store/memory-rule-store.test-helper.js'
import type { Role } from '../../rules/store/records.js'
import type { RuleStore } from '../../rules/store/rule-store.js'
import type { RuleFollower } from '../../rules/sync/rule-follower.js'
import { followStore } from '../../rules/sync/rule-store-follower.js'
import { TestKeyReceiver } from '../../rules/sync/rule-store-follower.test-helper.js'
import { createAdmin } from './admin.js'
import type { AdminDeps } from './admin-deps.js'
import { type AdminApp, createAdminApp } from './admin-app.js'
import { fakeAlerts, fakeFleetStats } from './fleet-stats-fake.test-helper.js'

export const ROOT_TOKEN = 'root-token-0123456789abcdef'
const RELEASE = '1.2.3'

type Raw = (bytes: string | Buffer) => Promise<string>

interface AdminResponse {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The parsed JSON; undefined if it is not JSON. */
  readonly body: unknown
}

interface AdminRequestOptions {
  /** Null: no token. @default the server's own */
  readonly token?: string | null
  readonly headers?: Readonly<Record<string, string>>
  /** Sent unchanged; all else is sent as JSON. */
  readonly text?: string | Uint8Array<ArrayBuffer>
}

export interface TestAdmin {
  readonly app: AdminApp
  readonly deps: AdminDeps
  readonly editor: Editor
  readonly release: string
  readonly memoryLog: MemoryLog
  advance(ms: number): void
  /** The path below `/admin/v1`. */
  request(
    method: string,
    path: string,
    body?: unknown,
    sent?: AdminRequestOptions,
  ): Promise<AdminResponse>
  /** Every route that is served, with its parameters in braces. */
  routes(): readonly { readonly method: string; readonly path: string }[]
  /** Creates a token and returns it. */
  tokenOf(role: Role): Promise<string>
  /** Serves it on a socket; `raw` is everything that is received until the server closes. */
  listen(): Promise<{ readonly url: string; readonly raw: Raw; readonly close: () => void }>
}

export interface TestOptions {
  /** @default one rule by user */
  readonly rules?: readonly object[]
  /** Rules come from a file, so that nothing can be changed. */
  readonly readOnly?: boolean
  /** Replaces dependencies. */
  readonly deps?: (deps: AdminDeps) => AdminDeps
}

export const PER_USER = { id: 'per-user', by: ['user'], limits: ['2/minute'] }

const closing: (() => Promise<unknown>)[] = []

/** Everything that was started is closed after the tests of the file. */
export function closeAfterTests(): void {
  afterAll(() => Promise.all(closing.splice(0).map((close) => close())))
}

export async function startAdmin(options: TestOptions = {}): Promise<TestAdmin> {
  const clock = manualClock()
  const wall = { now: () => clock.now() / 1000 }
  const memoryLog = createMemoryLog('debug', wall)
  const { log } = memoryLog
  const limiter = createLimiter({ rules: [], clock, secret: SECRET })
  closing.push(() => limiter.close())
  const hideSecrets = createSecretMasker(SECRET, ['api_key'])
  const store = memoryRuleStore({ now: () => wall.now() })
  const keys = new TestKeyReceiver()
  const followed = await followStore({ store, limiter, keys, log, node: NODE })
  closing.push(() => followed.close())
  const filling = createEditor({ follower: followed, clock: wall, log, hideSecrets })
  await filling.apply({ rules: options.rules ?? [PER_USER] }, ADMIN, { confirmed: true })
  const source = options.readOnly === true ? withStore(followed, undefined) : followed
  const editor = createEditor({ follower: source, clock: wall, log, hideSecrets })
  const usual: AdminDeps = {
    metricsText: () => 'sluice_up 1\n',
    editor,
    ruleFollower: source,
    decider: createDecider({ limiter, ...SILENT }),
    fleetStats: fakeFleetStats(),
    alerts: fakeAlerts(),
    rootToken: ROOT_TOKEN,
    clock: wall,
    log,
    hideSecrets,
    node: () => ({ ...NODE, rulesVersion: followed.version() }),
  }
  const deps = options.deps?.(usual) ?? usual
  const app = createAdminApp(deps)
  return {
    app,
    deps,
    editor,
    release: RELEASE,
    memoryLog,
    advance: (ms) => clock.advance(ms),
    request: (method, path, body, sent) => sendRequest(app, method, `/admin/v1${path}`, body, sent),
    routes: () => routesOf(app),
    tokenOf: async (role) => (await editor.createToken({ name: `a ${role}`, role }, ADMIN)).token,
    listen: () => listen(deps),
  }
}

const ADMIN = { by: 'admin', why: undefined }

const SILENT = {
  metrics: { count: () => undefined },
  observability: { onDecision: () => undefined },
  refusals: { logRefusal: () => undefined, logShadowRefusal: () => undefined },
  degraded: { onDecision: () => undefined },
  times: { observe: () => undefined },
  nowMs: () => 0,
}

const NODE = {
  id: 'node-1',
  host: 'localhost',
  pid: 1,
  release: RELEASE,
  startedAt: '2026-01-01T00:00:00.000Z',
}

/** The same follower with another store, or with none, as if rules were a file. */
export function withStore(source: RuleFollower, store: RuleStore | undefined): RuleFollower {
  return {
    name: source.name,
    isReady: () => source.isReady(),
    hasHadRules: () => source.hasHadRules(),
    version: () => source.version(),
    ageSeconds: () => source.ageSeconds(),
    failures: () => source.failures(),
    problem: () => source.problem(),
    shadowUntil: (rule) => source.shadowUntil(rule),
    catalog: source.catalog,
    store,
    status: () => store?.status(),
    refresh: (version) => source.refresh(version),
    close: () => source.close(),
  }
}

/** `null` and absent differ: many tests send nothing at all. */
async function sendRequest(
  app: AdminApp,
  method: string,
  path: string,
  body: unknown,
  { token = ROOT_TOKEN, headers = {}, text }: AdminRequestOptions = {},
): Promise<AdminResponse> {
  const authorization = token === null ? {} : { authorization: `Bearer ${token}` }
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  const sent = text ?? (body === undefined ? null : JSON.stringify(body))
  const response = await requestApp(app, path, {
    method,
    headers: { ...authorization, ...type, ...headers },
    body: sent,
  })
  const answered = await textOf(response)
  const { status } = response
  return { status, headers: response.headers, text: answered, body: jsonOf(answered) }
}

/** Reads only the beginning of an event stream, which does not end. */
async function textOf(response: Response): Promise<string> {
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
  if (!isStream || response.body === null) return response.text()
  const reader = response.body.getReader()
  const { value } = await reader.read()
  await reader.cancel()
  return new TextDecoder().decode(value)
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function routesOf({ operations }: AdminApp) {
  return operations.map(({ method, path }) => ({ method: method.toUpperCase(), path }))
}

/** Sends a request to the app without a socket. */
export async function requestApp(
  app: AdminApp,
  path: string,
  init: RequestInit = {},
): Promise<Response> {
  return app.fetch(new Request(new URL(path, 'http://localhost'), init))
}

async function listen(deps: AdminDeps) {
  const admin = createAdmin(deps)
  const server = createServer((request, response) => void admin.handle(request, response))
  closing.push(async () => admin.close())
  server.on('checkContinue', (request, response) => void admin.handle(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  closing.push(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return {
    url: `http://127.0.0.1:${port}`,
    raw: (bytes: string | Buffer) => sendRaw(port, bytes),
    close: () => admin.close(),
  }
}

function sendRaw(port: number, bytes: string | Buffer): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
    })
    socket.on('error', () => undefined)
    socket.on('close', () => resolve(text))
  })
}
