/** Starts a server with rules and sends traffic to it, for tests of its dashboard. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type AdminClient, createAdminClient, type Role } from '@sluice/client'
import { requestDecision } from '../operator.test-helper.js'
import { type RunningServer, start } from '../serve.test-helper.js'

export interface DashboardServer extends RunningServer {
  readonly token: string
  readonly client: AdminClient
}

export async function startDashboardServer(
  rules: string,
  env: Readonly<Record<string, string>> = {},
): Promise<DashboardServer> {
  const running = await start({ ...env })
  const token = readToken(running.folder)
  const client = createAdminClient({ url: running.admin, token })
  await client.applyRules(rules, { file: 'rules.yaml', ifMatch: '*', why: 'rules of the test' })
  return { ...running, token, client }
}

function readToken(folder: string): string {
  return readFileSync(join(folder, '.sluice/admin-token'), 'utf8').trim()
}

/** Creates an admin token with this name and role. */
export async function addToken(
  { client }: DashboardServer,
  name: string,
  role: Role,
): Promise<string> {
  const { token } = await client.addToken({ name, role })
  if (token === undefined) throw new Error('The response has no token.')
  return token
}

export interface TrafficSource {
  /** Of the last calls, how many were answered and how many of these were refused. */
  readonly recentCalls: () => { readonly refused: number; readonly answered: number }
  readonly stop: () => void
}

const RECENT_CALLS = 20

/** Calls the decision API at a constant rate until stopped, also while the server is gone. */
export function sendTraffic(
  api: string,
  attributes: Readonly<Record<string, string>>,
  perSecond: number,
): TrafficSource {
  const answers: boolean[] = []
  const call = async () => {
    try {
      answers.push((await requestDecision(api, 'check', attributes)).allowed)
      if (answers.length > RECENT_CALLS) answers.shift()
    } catch {
      // The server may be restarting.
    }
  }
  const timer = setInterval(() => void call(), 1000 / perSecond)
  return {
    recentCalls: () => ({
      refused: answers.filter((isAllowed) => !isAllowed).length,
      answered: answers.length,
    }),
    stop: () => clearInterval(timer),
  }
}
