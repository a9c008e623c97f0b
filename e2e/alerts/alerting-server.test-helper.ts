/** A server that delivers its alerts to a receiver, with helpers to read its log and events. */
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
  /** The other fields of `alerts`. */
  readonly alerts?: Readonly<Record<string, unknown>>
  /** The other sections of sluice.yaml. */
  readonly config?: Readonly<Record<string, unknown>>
  /** Undefined when the test has a database. */
  readonly rules?: readonly unknown[]
  readonly env?: Readonly<Record<string, string>>
}

export interface AlertingServer extends RunningServer {
  readonly client: AdminClient
  readonly operator: Operator
  /**
   * Expects that the log has exactly these lines for that message and alert. Polls, because the log
   * and the receiver are written independently.
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

/** JSON is valid YAML. */
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
        // The first line may be cut, and the banner is not JSON.
        return []
      }
    })
}

type Attributes = Readonly<Record<string, string>>

/** Makes all calls at once on one connection, so that one worker decides them all. */
export async function check(api: string, calls: readonly Attributes[]): Promise<void> {
  const response = await fetch(`${api}/v1/check`, {
    method: 'POST',
    headers: { connection: 'close' },
    body: JSON.stringify(calls.map((attributes) => ({ attributes }))),
  })
  await response.arrayBuffer()
  if (!response.ok) throw new Error(`found status ${response.status}`)
}

/** Repeats an action with a pause after each; the returned function stops it. */
export function repeatEvery(everyMs: number, work: () => Promise<void>): () => Promise<void> {
  let isOver = false
  const done = (async () => {
    while (!isOver) {
      await work()
      await sleep(everyMs)
    }
  })()
  // The error is thrown to the code that stops the loop, not earlier.
  done.catch(() => {})
  return async () => {
    isOver = true
    await done
  }
}

/** Collects the alerts of the event stream from now on; also returns a function that stops it. */
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
