/** Runs command lines against a stub of the admin API. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach } from 'vitest'
import { main } from './index.js'

export interface ReceivedRequest {
  readonly method: string
  /** The path below /admin/v1. */
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly ifMatch: string | undefined
  readonly token: string | undefined
  readonly body: string
}

export interface CannedAnswer {
  readonly status?: number
  readonly body: unknown
  /** The connection is closed instead. */
  readonly drop?: boolean
}

/**
 * Answers by method and path: `PUT /rules`. A list is answered in turn, and its last item
 * repeatedly.
 */
export type Routes = Readonly<
  Record<
    string,
    CannedAnswer | readonly CannedAnswer[] | ((requests: ReceivedRequest) => CannedAnswer)
  >
>

const endings: (() => void | Promise<void>)[] = []

export function cleanAfterTests(): void {
  afterEach(async () => {
    for (const end of endings.splice(0)) await end()
  })
}

const NOW_MS = Date.parse('2026-06-01T00:00:00Z')

export const TOKEN = 'a-token-of-tests'

export function problem(status: number, error: string, more: object = {}): CannedAnswer {
  return {
    status,
    body: { type: 'about:blank', title: 'No', status, detail: error, error, ...more },
  }
}

export function answer(body: unknown): CannedAnswer {
  return { body }
}

export async function startAdmin(routes: Routes) {
  const requests: ReceivedRequest[] = []
  const turns = new Map<string, number>()
  const answerOf = (received: ReceivedRequest): CannedAnswer => {
    const name = `${received.method} ${received.path}`
    const found = routes[name]
    if (found === undefined) return problem(404, 'not_found', { detail: `no route ${name}` })
    if (typeof found === 'function') return found(received)
    if (!Array.isArray(found)) return found as CannedAnswer
    const list = found as readonly CannedAnswer[]
    const turn = turns.get(name) ?? 0
    turns.set(name, turn + 1)
    return list[Math.min(turn, list.length - 1)] ?? problem(500, 'internal')
  }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const url = new URL(request.url ?? '', 'http://a')
      const received: ReceivedRequest = {
        method: request.method ?? '',
        path: url.pathname.replace('/admin/v1', ''),
        query: Object.fromEntries(url.searchParams),
        ifMatch: request.headers['if-match'],
        token: request.headers.authorization,
        body: Buffer.concat(chunks).toString('utf8'),
      }
      requests.push(received)
      const { status = 200, body, drop = false } = answerOf(received)
      if (drop) return void request.socket.destroy()
      const isText = typeof body === 'string'
      response.writeHead(status, {
        'content-type': isText ? 'application/yaml' : 'application/json',
      })
      response.end(isText ? body : JSON.stringify(body))
    })
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  endings.push(close)
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  const lines = () => requests.map(({ method, path }) => `${method} ${path}`)
  return {
    url,
    requests,
    lines,
    close,
    run: (words: readonly string[], terminal: TerminalOptions = {}) =>
      sluice([...words, '--url', url, '--token-file', tempFile('token', `${TOKEN}\n`)], terminal),
  }
}

export interface TerminalOptions {
  readonly input?: string
  /** The answers of the user; without them there is no terminal. */
  readonly answers?: readonly string[]
  /** Runs before each answer. */
  readonly beforeAnswer?: () => Promise<unknown>
  readonly columns?: number
  /** Number of waits that end immediately; the next one is interrupted. @default 0 */
  readonly waits?: number
  /** How many writes the output accepts before its reader closes it. @default any number */
  readonly writesRead?: number
}

/** Runs one command line. With `answers` it has a terminal. */
export async function sluice(words: readonly string[], terminal: TerminalOptions = {}) {
  const { input = '', answers, beforeAnswer, columns, waits = 0, writesRead = Infinity } = terminal
  let waited = 0
  let writes = 0
  let out = ''
  let err = ''
  const prompts: string[] = []
  const code = await main(words, {
    out: (text) => {
      if (writes++ < writesRead) out += text
    },
    err: (text) => {
      err += text
    },
    readInput: async () => input,
    prompt: async (question) => {
      prompts.push(question)
      await beforeAnswer?.()
      return answers?.[prompts.length - 1] ?? ''
    },
    isTerminal: answers !== undefined,
    columns,
    now: () => NOW_MS,
    wait: async () => {
      if (++waited > waits) throw new Error('interrupted')
    },
    isOutputOpen: () => writes <= writesRead,
    flush: async () => {},
  })
  return { code, out, err, prompts }
}

export function tempFile(name: string, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-cli-'))
  endings.push(() => rmSync(folder, { recursive: true }))
  const file = join(folder, name)
  writeFileSync(file, text)
  return file
}
