/** Several `sluice serve` with one rule store, and what each of them reports about its rules. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type AdminClient, createAdminClient } from '@sluice/client'
import { type RunningServer, start } from '../serve.test-helper.js'

const TOKEN = 'e2e-admin-token-of-a-hundred-and-twenty-eight-bits'

const LOOK_EVERY_MS = 15

export interface Node extends RunningServer {
  readonly client: AdminClient
  /** The limit of the rule `live` for one user; undefined if there is no such rule. */
  peekLimit(): Promise<number | undefined>
  metric(name: string): Promise<number>
  /** The lines of its log with this message. */
  logged(message: string): readonly Readonly<Record<string, unknown>>[]
  ready(): Promise<Readiness>
}

interface Readiness {
  readonly code: number
  readonly reasons: readonly string[]
}

export async function startNode(env: Record<string, string>, folder?: string): Promise<Node> {
  const running = await start({ SLUICE_ADMIN_TOKEN: TOKEN, ...env }, folder)
  return {
    ...running,
    client: createAdminClient({ url: running.admin, token: TOKEN }),
    peekLimit: () => peekLimit(running.api),
    metric: (name) => readMetric(running.admin, name),
    logged: (message) => linesOf(running.program.output()).filter(({ msg }) => msg === message),
    async ready() {
      const response = await fetch(`${running.api}/readyz`)
      const { reasons } = (await response.json()) as Pick<Readiness, 'reasons'>
      return { code: response.status, reasons }
    },
  }
}

export function startNodes(count: number, env: Record<string, string>): Promise<readonly Node[]> {
  return Promise.all(Array.from({ length: count }, () => startNode(env)))
}

export async function peekLimit(api: string, user = 'u1'): Promise<number | undefined> {
  const body = JSON.stringify({ attributes: { user } })
  const response = await fetch(`${api}/v1/peek`, { method: 'POST', body })
  return ((await response.json()) as { readonly limit?: number }).limit
}

async function readMetric(admin: string, name: string): Promise<number> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  const line = text.split('\n').find((found) => found.startsWith(`${name} `))
  return line === undefined ? Number.NaN : Number(line.slice(name.length + 1))
}

/** The rule that is changed; its limit identifies the change that a node runs. */
export function liveRule(max: number) {
  return { id: 'live', by: ['user'], limits: limitOf(max) }
}

export function limitOf(max: number) {
  return [{ max, window: '1h', name: 'hourly' }]
}

/** The same change to the stored rule, with SQL. */
export function changeByHand(max: number, id = 'live'): string {
  const limits = `jsonb_set(body::jsonb, '{limits,0,max}', '${max}')`
  return `update sluice.rules set body = ${limits} where id = '${id}'`
}

/**
 * A longer probe means that the node or this process did not run, and the node could not have done
 * anything in that time.
 */
const LOOK_MS_MAX = 250

/** How long each node took to run the change, from now; fails with the nodes that did not. */
export async function liveOnAll(
  nodes: readonly Node[],
  max: number,
  withinMs: number,
): Promise<readonly number[]> {
  const waits = nodes.map(async (node) => {
    let ranMs = 0
    while (ranMs < withinMs) {
      const began = performance.now()
      const isLive = (await node.peekLimit()) === max
      if (!isLive) await sleep(LOOK_EVERY_MS)
      ranMs += Math.min(performance.now() - began, LOOK_MS_MAX)
      if (isLive) return ranMs
    }
    return undefined
  })
  const all = await Promise.all(waits)
  return all.map((ms, index) => {
    if (ms !== undefined) return ms
    const output = nodes[index]?.program.output().slice(-4000)
    throw new Error(`node ${index} does not run change ${max} within ${withinMs} ms:\n${output}`)
  })
}

/** Waits until all of them listen or poll for changes. */
export async function waitForNews(nodes: readonly Node[], how: 'push' | 'poll'): Promise<void> {
  await Promise.all(
    nodes.map(async ({ client, program }) => {
      const until = performance.now() + NEWS_MS_MAX
      while ((await client.listNodes()).news !== how) {
        if (performance.now() > until) throw new Error(`no ${how}:\n${program.output()}`)
        await sleep(LOOK_EVERY_MS)
      }
    }),
  )
}

const NEWS_MS_MAX = 30_000

/** Waits until its last known good copy on disk contains this text. */
export async function isStored({ folder }: Node, ...words: readonly string[]): Promise<void> {
  const file = join(folder, '.sluice', 'last-good', 'records.jsonl')
  const text = () => (existsSync(file) ? readFileSync(file, 'utf8') : '')
  const until = performance.now() + KEPT_MS_MAX
  while (!words.every((word) => text().includes(word))) {
    if (performance.now() > until) throw new Error(`no ${words.join(', ')} in ${file}:\n${text()}`)
    await sleep(LOOK_EVERY_MS)
  }
}

const KEPT_MS_MAX = 30_000

/** The same database through a proxy on another port. */
export function throughPort(url: string, port: number): string {
  const other = new URL(url)
  other.port = String(port)
  return other.href
}

/** The smallest value that is at least as large as this share of all. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`
}

function linesOf(output: string): readonly Readonly<Record<string, unknown>>[] {
  return output.split('\n').flatMap((line) => {
    try {
      return [JSON.parse(line) as Record<string, unknown>]
    } catch {
      // The first line may be cut, and the banner is not JSON.
      return []
    }
  })
}
