/** The `sluice` command and curl, as an operator uses them beside a running server. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findService } from '../tools/services.mjs'
import type { RunningServer } from './serve.test-helper.js'

const COMMAND = fileURLToPath(new URL('../packages/cli/bin/sluice.mjs', import.meta.url))
/** A command that never ends is a failure. */
const RUN_MS_MAX = 30_000
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024

export interface CommandResult {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export interface RunOptions {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
}

/** Runs one command line to its end. */
export function runSluice(args: readonly string[], options: RunOptions): Promise<CommandResult> {
  return runCommand(process.execPath, [COMMAND, ...args], options)
}

export function runCommand(
  command: string,
  args: readonly string[],
  { cwd, env = {} }: RunOptions,
): Promise<CommandResult> {
  return new Promise((resolve) => {
    const child = execFile(
      command,
      args,
      {
        cwd,
        env: { ...process.env, ...env },
        timeout: RUN_MS_MAX,
        killSignal: 'SIGKILL',
        maxBuffer: OUTPUT_BYTES_MAX,
      },
      (_error, out, err) => resolve({ code: child.exitCode, out, err }),
    )
    child.stdin?.end()
  })
}

interface CurlResult {
  readonly status: number
  readonly body: string
  /** The body, if it is JSON. */
  readonly json: unknown
}

interface CurlOptions {
  readonly method?: string
  readonly body?: string
  readonly type?: string
  /** Replaces the operator's own token; null sends none. */
  readonly token?: string | null
}

export interface Operator {
  /** The token that the server generated. */
  readonly token: string
  /** Arguments of a command line, separated by spaces. */
  readonly sluice: (line: string) => Promise<CommandResult>
  /** The output of a command with `--json`; throws if the command fails. */
  readonly json: <Output>(line: string) => Promise<Output>
  /** By the path below /admin/v1. */
  readonly curl: (path: string, options?: CurlOptions) => Promise<CurlResult>
}

/** Runs in the folder of the server, so that only the port must be given. */
export function operatorOf({ admin, folder }: Pick<RunningServer, 'admin' | 'folder'>): Operator {
  const env = { SLUICE_ADMIN_URL: admin }
  const token = readFileSync(join(folder, '.sluice/admin-token'), 'utf8').trim()
  const sluice = (line: string) => runSluice(line.split(' '), { cwd: folder, env })
  return {
    token,
    sluice,
    async json<Output>(line: string) {
      const { code, out, err } = await sluice(`${line} --json`)
      if (code !== 0) throw new Error(`sluice ${line}: exit ${code}\n${err}`)
      return JSON.parse(out) as Output
    },
    curl: (path, options = {}) => curl(`${admin}/admin/v1${path}`, { token, ...options }, folder),
  }
}

async function curl(
  url: string,
  { method, body, type = 'application/json', token }: CurlOptions,
  cwd: string,
): Promise<CurlResult> {
  const args = [
    '--silent',
    '--show-error',
    '--write-out',
    '\n%{http_code}',
    ...(typeof token === 'string' ? ['--header', `Authorization: Bearer ${token}`] : []),
    ...(method === undefined ? [] : ['--request', method]),
    ...(body === undefined ? [] : ['--header', `Content-Type: ${type}`, '--data-binary', body]),
    url,
  ]
  const { code, out, err } = await runCommand(findService('curl'), args, { cwd })
  if (code !== 0) throw new Error(`curl ${url}: exit ${code}\n${err}`)
  const end = out.lastIndexOf('\n')
  const text = out.slice(0, end)
  return { status: Number(out.slice(end + 1)), body: text, json: jsonOf(text) }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The statuses of this many calls through a gateway, one after the other. */
export async function statusesOf(
  url: string,
  count: number,
  headers: Readonly<Record<string, string>> = {},
): Promise<readonly number[]> {
  const statuses: number[] = []
  for (let i = 0; i < count; i++) {
    const response = await fetch(url, { headers })
    await response.arrayBuffer()
    statuses.push(response.status)
  }
  return statuses
}

export interface DecisionBody {
  readonly allowed: boolean
  readonly rule: string | null
  readonly limit: number
  readonly remaining: number
  /** The limit of every rule that matched; see `limitsIn`. */
  readonly limits: Readonly<Record<string, number>>
}

export async function requestDecision(
  api: string,
  verb: 'check' | 'peek',
  attributes: Readonly<Record<string, string>>,
): Promise<DecisionBody> {
  // One connection per call: with several workers, any of them may get it.
  const response = await fetch(`${api}/v1/${verb}`, {
    method: 'POST',
    headers: { connection: 'close' },
    body: JSON.stringify({ attributes }),
  })
  return {
    ...((await response.json()) as Omit<DecisionBody, 'limits'>),
    limits: limitsIn(response),
  }
}

/** The limit of each rule with one limit, from `RateLimit-Policy`: {"per-user": 10}. */
export function limitsIn({ headers }: Response): Readonly<Record<string, number>> {
  const field = headers.get('ratelimit-policy') ?? ''
  return Object.fromEntries(
    [...field.matchAll(/"([^"]+)";q=(\d+)/g)].map(([, rule, limit]) => [rule, Number(limit)]),
  )
}

/** Metrics require no token. */
export async function metricOf(admin: string, start: string): Promise<number | undefined> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  const line = text.split('\n').find((found) => found.startsWith(start))
  return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(' ') + 1))
}
