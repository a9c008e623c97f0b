/** A whole server in the process of the test, in front of an upstream of the test. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Environment } from './config/variables.js'
import { parseConfig } from './config/parse-config.js'
import { createMemoryLog, type MemoryLog } from './observability/log/memory-log.test-helper.js'
import { type RunningServer, serve } from './serve.js'

export interface TestServer extends RunningServer {
  readonly gatewayPort: number
  readonly apiPort: number
  readonly adminPort: number
  /** Requests that reached the upstream. */
  readonly calls: UpstreamCall[]
  readonly lines: MemoryLog['lines']
  readonly folder: string
  readonly upstreamServer: Server
  close(): Promise<void>
}

interface UpstreamCall {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly rawHeaders: readonly string[]
}

export interface TestServerOptions {
  readonly rules?: string | object
  /** The configuration file, as YAML or JSON. */
  readonly config?: object
  readonly env?: Environment
  readonly upstream?: RequestListener
  /** How long warm-up may take. */
  readonly warmUpMs?: number
}

const TEST_TOKEN = 'test-admin-token-0123456789'

export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-serve-'))
  const calls: UpstreamCall[] = []
  const upstreamServer = createServer((request, response) => {
    const { method = '', url = '', headers, rawHeaders } = request
    calls.push({ method, url, headers, rawHeaders })
    if (options.upstream !== undefined) return options.upstream(request, response)
    request.resume().on('end', () => response.end('ok'))
  })
  const port = await listen(upstreamServer)
  const { rules = [] } = options
  const rulesFile = join(folder, 'rules.yaml')
  writeFileSync(rulesFile, typeof rules === 'string' ? rules : JSON.stringify({ rules }))
  const { config, errors } = parseConfig(JSON.stringify(options.config ?? {}), {
    file: join(folder, 'sluice.yaml'),
    env: {
      SLUICE_RULES: rulesFile,
      SLUICE_UPSTREAM: `http://127.0.0.1:${port}`,
      SLUICE_GATEWAY_LISTEN: '127.0.0.1:0',
      SLUICE_API_LISTEN: '127.0.0.1:0',
      SLUICE_GRPC_LISTEN: '127.0.0.1:0',
      SLUICE_ADMIN_LISTEN: '127.0.0.1:0',
      SLUICE_ADMIN_TOKEN: TEST_TOKEN,
      SLUICE_DATA_DIR: join(folder, 'data'),
      ...options.env,
    },
    readFile: () => '',
  })
  if (config === undefined) throw new Error(errors.map(({ message }) => message).join('\n'))
  const { log, lines } = createMemoryLog()
  const server = await serve(config, { log, warmUpMs: options.warmUpMs })
  return {
    ...server,
    gatewayPort: portOf(server.gateway),
    apiPort: portOf(server.api),
    adminPort: portOf(server.admin),
    calls,
    lines,
    folder,
    upstreamServer,
    async close() {
      upstreamServer.closeAllConnections()
      await server.stop({ atOnce: true })
      await new Promise((resolve) => upstreamServer.close(resolve))
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function portOf(url: string): number {
  return Number(new URL(url).port)
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}
