/** A server with rules of its own and somebody who calls, for tests that look at its dashboard. */
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
  await client.applyRules(rules, { file: 'rules.yaml', ifMatch: '*', why: 'the rules of the shop' })
  return { ...running, token, client }
}

function readToken(folder: string): string {
  return readFileSync(join(folder, '.sluice/admin-token'), 'utf8').trim()
}

/** Another token for the dashboard, of this name and role. */
export async function addToken(
  { client }: DashboardServer,
  name: string,
  role: Role,
): Promise<string> {
  const { token } = await client.addToken({ name, role })
  if (token === undefined) throw new Error('No token came with its answer.')
  return token
}

export interface TrafficSource {
  /** How many of the last calls were refused, and how many were answered at all. */
  readonly recentCalls: () => { readonly refused: number; readonly answered: number }
  readonly stop: () => void
}

const RECENT_CALLS = 20

/** Asks the decision API at an even pace until stopped; a server that is gone is no matter. */
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
      // It comes back.
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
