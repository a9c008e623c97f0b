/** One server for a table of bad inputs, which are sent as raw bytes. */
import { afterAll, beforeAll, expect } from 'vitest'
import {
  startTestServer,
  type TestServer,
  type TestServerOptions,
} from '../../src/serve.test-helper.js'
import { type RawResponse, exchange } from './raw.test-helper.js'

/** Starts it before the first test of the file and stops it after the last. */
export function serverOfFile(options: TestServerOptions): { readonly server: TestServer } {
  const held: { server?: TestServer } = {}
  beforeAll(async () => {
    held.server = await startTestServer(options)
  })
  afterAll(() => held.server?.close())
  return {
    get server() {
      if (held.server === undefined) throw new Error('The server was not started')
      return held.server
    },
  }
}

/** A request to the decision API. Text is sent as UTF-8, bytes unchanged. */
export function post(path: string, body: string | Buffer, headers = ''): Buffer {
  const bytes = Buffer.from(body)
  const head = `POST ${path} HTTP/1.1\r\nHost: a.example\r\nContent-Length: ${bytes.length}\r\n`
  return Buffer.concat([Buffer.from(`${head}${headers}\r\n`), bytes])
}

/** A request to the gateway. */
export function get(target: string, headers = '', method = 'GET'): string {
  return `${method} ${target} HTTP/1.1\r\nHost: a.example\r\n${headers}\r\n`
}

/** The single response to a request after which the connection stays open. */
export async function requestOnce(port: number, bytes: string | Buffer): Promise<RawResponse> {
  const { answers } = await exchange(port, bytes, 1)
  const [answer, ...more] = answers
  if (answer === undefined || more.length > 0) throw new Error(`${answers.length} answers`)
  return answer
}

export interface CheckResponse extends RawResponse {
  readonly json: Readonly<Record<string, unknown>>
}

/** The response of the decision API to a call, or to a body that need not be one. */
export async function check(
  { apiPort }: TestServer,
  call: object | string | Buffer,
): Promise<CheckResponse> {
  const isBody = typeof call === 'string' || Buffer.isBuffer(call)
  const answer = await requestOnce(apiPort, post('/v1/check', isBody ? call : JSON.stringify(call)))
  return { ...answer, json: JSON.parse(Buffer.from(answer.body, 'latin1').toString()) }
}

/** Whether each of these calls is allowed, in their order. */
export async function allowed(
  server: TestServer,
  calls: readonly Readonly<Record<string, unknown>>[],
): Promise<boolean[]> {
  const answers: boolean[] = []
  for (const attributes of calls) {
    const { status, json } = await check(server, { attributes })
    expect(status).toBe(200)
    answers.push(json['allowed'] === true)
  }
  return answers
}

/** Checks that the process still answers on each listener. */
export async function expectAlive({ gatewayPort, apiPort, adminPort, calls }: TestServer) {
  const before = calls.length
  expect((await requestOnce(gatewayPort, get('/alive'))).status).toBe(200)
  expect((await requestOnce(apiPort, get('/healthz'))).status).toBe(200)
  expect((await requestOnce(adminPort, get('/metrics'))).status).toBe(200)
  expect(calls.length).toBe(before + 1)
}
