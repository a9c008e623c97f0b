/** A decision API on a socket of its own, for tests over HTTP. */
import { Agent, createServer, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { parsePattern, parseTrustedProxies, type PathPattern } from '@sluice/core'
import { createLimiter, type Limiter } from '@sluice/limiter'
import { manualClock, type ManualClock } from '@sluice/limiter/testing'
import { afterAll } from 'vitest'
import type { Config, IdentityConfig } from '../../config/config.js'
import { ALERTS_DEFAULT } from '../../config/parse-alerts.js'
import { createDecider, type Decider } from '../../decide.js'
import { createIdentifier, type Identifier } from '../../identity/identify.js'
import { createSecretMasker } from '../../identity/masked-value.js'
import { identityConfig, SECRET } from '../../identity/identify.test-helper.js'
import { createMemoryLog, type MemoryLog } from '../../observability/log/memory-log.test-helper.js'
import type { Telemetry } from '../../observability/tracing/telemetry.js'
import type { RateLimitService } from '../envoy/rate-limit-service.js'
import { createApi, type Readiness } from './decision-api.js'

export const API_TOKEN = 'api-token-0123456789'
export const ADMIN_TOKEN = 'admin-token-0123456789'

export interface TestOptions {
  readonly rules?: object | string
  readonly token?: string
  readonly trusted?: readonly string[]
  readonly forwardedHeader?: 'x-forwarded-for' | 'forwarded'
  readonly refusedStatus?: 429 | 403
  readonly jitter?: boolean
  readonly requireUser?: readonly string[]
  readonly identity?: Partial<IdentityConfig>
  readonly readiness?: () => Readiness
  /** Replaces methods of the limiter. */
  readonly limiter?: (limiter: Limiter) => Limiter
  /** Replaces the identifier. */
  readonly identifier?: Identifier
  /** Handles `Expect: 100-continue`, as the listener does. @default true */
  readonly checkContinue?: boolean
  readonly telemetry?: Telemetry | undefined
  /** Answers `/json`; undefined: there is no such path. @default one that allows everything */
  readonly rateLimitService?: RateLimitService | undefined
}

export interface ApiResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** The parsed JSON; undefined if the body is empty or text. */
  readonly body: unknown
}

export interface ApiRequestOptions {
  readonly method?: string
  readonly token?: string
  readonly headers?: Readonly<Record<string, string | string[]>>
}

export interface TestApi {
  readonly port: number
  readonly clock: ManualClock
  readonly limiter: Limiter
  readonly memoryLog: MemoryLog
  /** Sends JSON, or a text or bytes unchanged. */
  post(path: string, body: unknown, sent?: ApiRequestOptions): Promise<ApiResponse>
  send(path: string, sent?: ApiRequestOptions, body?: string | Buffer): Promise<ApiResponse>
  /** Everything that is received for these bytes until the server closes. */
  raw(bytes: string | Buffer): Promise<string>
}

const EVERYTHING_OK: RateLimitService = {
  shouldRateLimit: () => ({
    overallCode: 'ok',
    statuses: [],
    responseHeaders: [],
    requestHeaders: [],
    rawBody: '',
    dynamicMetadata: undefined,
  }),
}

const PER_USER = [{ id: 'per-user', by: ['user'], limits: ['2/minute'] }]

const closing: (() => Promise<void>)[] = []

/** Everything that was started is closed after the tests of the file. */
export function closeAfterTests(): void {
  afterAll(() => Promise.all(closing.splice(0).map((close) => close())))
}

export async function startApi(options: TestOptions = {}): Promise<TestApi> {
  const clock = manualClock()
  const made = createLimiter({ rules: options.rules ?? PER_USER, clock, secret: SECRET })
  const limiter = options.limiter?.(made) ?? made
  const config = testConfig(options)
  const wall = { now: () => clock.now() / 1000 }
  const memoryLog = createMemoryLog('debug', wall)
  const api = createApi({
    config,
    decider: testDecider(limiter),
    identifier:
      options.identifier ??
      createIdentifier({ ...config, config: config.identity, secret: SECRET }),
    clock: wall,
    responseClock: wall,
    random: () => 0.5,
    log: memoryLog.log,
    readiness:
      options.readiness ?? (() => ({ ready: true, reasons: [], store: { kind: 'memory' } })),
    adminToken: ADMIN_TOKEN,
    hideSecrets: createSecretMasker(SECRET, ['api_key']),
    telemetry: options.telemetry,
    rateLimitService: 'rateLimitService' in options ? options.rateLimitService : EVERYTHING_OK,
  })
  const server = createServer((request, response) => api.handle(request, response))
  if (options.checkContinue !== false) {
    server.on('checkContinue', (request, response) => api.handle(request, response))
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const agent = new Agent({ keepAlive: true, maxSockets: 8 })
  closing.push(async () => {
    agent.destroy()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    await made.close()
  })
  const send: TestApi['send'] = (path, sent, body) => sendTo({ port, agent }, path, sent, body)
  return {
    port,
    clock,
    limiter,
    memoryLog,
    send,
    post: (path, body, sent) =>
      send(path, { method: 'POST', ...sent }, isBytes(body) ? body : JSON.stringify(body)),
    raw: (bytes) => sendRaw(port, bytes),
  }
}

/** Without the headers that Node adds to every response. */
export function ownHeaders({ headers }: ApiResponse): object {
  const { date: _date, connection: _connection, 'keep-alive': _keepAlive, ...own } = headers
  return own
}

const isBytes = (body: unknown): body is string | Buffer =>
  typeof body === 'string' || Buffer.isBuffer(body)

export function testDecider(limiter: Limiter): Decider {
  return createDecider({
    limiter,
    metrics: { count: () => undefined },
    observability: { onDecision: () => undefined },
    refusals: { logRefusal: () => undefined, logShadowRefusal: () => undefined },
    degraded: { onDecision: () => undefined },
    times: { observe: () => undefined },
    nowMs: () => 0,
  })
}

function testConfig(options: TestOptions): Config {
  const { token, trusted = [], forwardedHeader = 'x-forwarded-for', refusedStatus = 429 } = options
  const listen = { host: '127.0.0.1', port: 0 }
  const second = 1000
  return {
    file: undefined,
    rules: undefined,
    allowNoRules: false,
    dataDir: '.',
    workers: 1,
    trustedProxies: parseTrustedProxies(trusted).cidrs,
    forwardedHeader,
    keySecret: SECRET,
    maxCounters: 1000,
    redis: undefined,
    ring: undefined,
    regions: undefined,
    database: undefined,
    rulesHistory: { versions: 10_000, ageMs: undefined },
    gateway: {
      listen,
      tls: undefined,
      upstreams: [],
      headers: true,
      cors: undefined,
      requireUser: (options.requireUser ?? []).map(patternOf),
      maxConnections: 10,
      maxConnectionsPerAddress: 10,
      maxCallsPerAddress: 10,
      maxHeld: 10,
      timeouts: {
        headersMs: second,
        requestMs: second,
        connectMs: second,
        queueMs: second,
        responseMs: second,
        stallMs: second,
        websocketIdleMs: second,
      },
    },
    api: { listen, tls: undefined, token, refusedStatus },
    envoy: {
      listen,
      tls: undefined,
      insecure: false,
      config: undefined,
      xds: undefined,
      deadlineMs: second,
      server: 'grpc-js',
      reflection: false,
      shadow: false,
      quota: false,
      headers: 'all',
      metadata: false,
      mergeDomains: false,
      domains: new Map(),
      defaults: {
        counting: 'sluice',
        requireMatch: false,
        algorithm: undefined,
        posture: undefined,
      },
      nearLimitRatio: 0.8,
      maxAgeMs: second,
    },
    admin: { listen, token: ADMIN_TOKEN },
    identity: identityConfig(options.identity),
    refusals: { postureStatus: 503, shedStatus: 503, jitter: options.jitter ?? false },
    log: { level: 'info', callers: 'hash' },
    alerts: ALERTS_DEFAULT,
    decisionLog: undefined,
    telemetry: true,
    shutdown: { delayMs: 0, withinMs: second },
  }
}

function patternOf(text: string): PathPattern {
  const pattern = parsePattern(text)
  if ('problem' in pattern) throw new Error(pattern.problem)
  return pattern
}

interface Target {
  readonly port: number
  readonly agent: Agent
}

function sendTo(
  { port, agent }: Target,
  path: string,
  { method = 'GET', token, headers = {} }: ApiRequestOptions = {},
  body?: string | Buffer,
): Promise<ApiResponse> {
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        host: '127.0.0.1',
        port,
        path,
        method,
        agent,
        headers: { ...authorization, ...length, ...headers },
      },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString()
          const status = response.statusCode ?? 0
          const isText = response.headers['content-type']?.startsWith('text/') === true
          const json = isText ? undefined : jsonOf(text)
          resolve({ status, headers: response.headers, text, body: json })
        })
      },
    )
    request.on('error', reject)
    request.end(body)
  })
}

function jsonOf(text: string): unknown {
  return text === '' ? undefined : JSON.parse(text)
}

function sendRaw(port: number, bytes: string | Buffer): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      // Ends the sending side, so that the server need not wait for more.
      if (text.endsWith('}')) socket.end()
    })
    // A server that does not read further resets; what it sent before counts.
    socket.on('error', () => undefined)
    socket.on('close', () => resolve(text))
  })
}
