/** A server whose alerts go to a receiver, and everything that tells of them. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type AdminClient, type AlertName, type AlertView, createAdminClient } from '@sluice/client'
import { expect, vi } from 'vitest'
import { type Operator, operatorOf } from '../operator.test-helper.js'
import { makeFolder } from '../process.test-helper.js'
import { type RunningServer, start } from '../serve.test-helper.js'
import { RUNBOOK, SECRET } from './alert-receiver.test-helper.js'

const SOON = { timeout: 20_000, interval: 50 }

export interface AlertingServerOptions {
  /** Where alerts are posted. */
  readonly url: string
  /** The rest of `alerts`. */
  readonly alerts?: Readonly<Record<string, unknown>>
  /** The rest of sluice.yaml. */
  readonly config?: Readonly<Record<string, unknown>>
  /** Undefined: there is a database. */
  readonly rules?: readonly unknown[]
  readonly env?: Readonly<Record<string, string>>
}

export interface AlertingServer extends RunningServer {
  readonly client: AdminClient
  readonly operator: Operator
  /**
   * Its log has these lines of that message and alert, and no others; perhaps not at once, as it
   * comes another way than what a receiver is told.
   */
  expectLogged(
    message: 'alert' | 'alert over',
    alert: AlertName,
    lines: readonly Partial<Line>[],
  ): Promise<void>
}

interface Line {
  readonly msg?: string
  readonly alert?: string
  readonly level?: string
  readonly subject?: string
}

/** A file of JSON is one of YAML. */
export async function startAlertingServer(options: AlertingServerOptions): Promise<AlertingServer> {
  const { url, alerts, config, rules, env } = options
  const folder = makeFolder()
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text)
  const webhook = { url, secretFile: 'webhook.secret' }
  write('webhook.secret', SECRET)
  write(
    'sluice.yaml',
    JSON.stringify({ ...config, alerts: { webhook, runbook: RUNBOOK, ...alerts } }),
  )
  if (rules !== undefined) write('rules.yaml', JSON.stringify({ rules }))
  const own = rules === undefined ? {} : { SLUICE_RULES: 'rules.yaml' }
  const running = await start({ ...own, ...env }, folder)
  const operator = operatorOf(running)
  return {
    ...running,
    operator,
    client: createAdminClient({ url: running.admin, token: operator.token }),
    expectLogged: (message, alert, lines) =>
      vi.waitFor(() => {
        const all = linesOf(running)
        expect(all.filter((line) => line.msg === message && line.alert === alert)).toMatchObject(
          lines,
        )
      }, SOON),
  }
}

function linesOf({ program }: RunningServer): readonly Line[] {
  return program
    .output()
    .split('\n')
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as Line]
      } catch {
        // The first may be cut, and what is for people is no line of the log.
        return []
      }
    })
}

type Attributes = Readonly<Record<string, string>>

/** All of them at once, over a connection of their own: whichever worker gets it decides all. */
export async function check(api: string, calls: readonly Attributes[]): Promise<void> {
  const response = await fetch(`${api}/v1/check`, {
    method: 'POST',
    headers: { connection: 'close' },
    body: JSON.stringify(calls.map((attributes) => ({ attributes }))),
  })
  await response.arrayBuffer()
  if (!response.ok) throw new Error(`found status ${response.status}`)
}

/** Does it again and again, with a pause after each; what it returns ends that. */
export function repeatEvery(everyMs: number, work: () => Promise<void>): () => Promise<void> {
  let isOver = false
  const done = (async () => {
    while (!isOver) {
      await work()
      await sleep(everyMs)
    }
  })()
  // A failure is met by who ends it, and not before.
  done.catch(() => {})
  return async () => {
    isOver = true
    await done
  }
}

/** The alerts that events tell of, from now on; what it returns with them ends that. */
export async function followAlerts({ client }: AlertingServer) {
  const events: AlertView[] = []
  const end = new AbortController()
  let over: Promise<void> = Promise.resolve()
  await new Promise<void>((resolve, reject) => {
    over = client.events({
      onEvent: ({ event, data }) => void (event === 'alert' && events.push(data)),
      onState: (state) => state === 'open' && resolve(),
      signal: end.signal,
    })
    over.catch(reject)
  })
  const stop = async () => {
    end.abort()
    await over
  }
  return { events, stop }
}
