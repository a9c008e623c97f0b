/** Several workers whose counters are in memory: together they admit each limit exactly. */
import { readdirSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, expect, test, vi } from 'vitest'
import { makeFolder, stopAll } from '../process.test-helper.js'
import { type RunningServer, start } from '../serve.test-helper.js'

/** With SLUICE_RUNS=1 a million calls; otherwise as many as every run can afford. */
const CALLS = process.env['SLUICE_RUNS'] === '1' ? 1_000_000 : 40_000
const CALLERS = 40
/** Connections go to the workers in turn, so each worker has several. */
const CONNECTIONS = 16
const SOON = { timeout: 60_000, interval: 100 }
/** Calls of one request. */
const LIST = 100

afterEach(stopAll)

async function startWorkers(max: number): Promise<RunningServer> {
  const folder = makeFolder()
  writeFileSync(
    join(folder, 'rules.yaml'),
    `rules:
  - id: users
    by: [user]
    limits: [{ algorithm: sliding-window-log, max: 1, window: 366d }]
    match: { where: { kind: [log] } }
    posture: closed
  - id: calls
    by: [user]
    limits: [{ algorithm: fixed-window, max: ${max}, window: 366d }]
    posture: closed
`,
  )
  return start({ SLUICE_RULES: 'rules.yaml', SLUICE_WORKERS: '4', SLUICE_DATA_DIR: 'data' }, folder)
}

interface Answer {
  readonly allowed: boolean
  readonly remaining: number
  readonly source: string
}

function check(agent: Agent, api: string, users: readonly string[]): Promise<readonly Answer[]> {
  const calls = users.map((user) => ({ attributes: { user } }))
  return new Promise((resolve, reject) => {
    const sent = request(`${api}/v1/check`, { method: 'POST', agent }, (response) => {
      let text = ''
      response.on('data', (chunk: Buffer) => (text += chunk.toString()))
      response.on('end', () => {
        if (response.statusCode === 200) resolve(JSON.parse(text) as readonly Answer[])
        else reject(new Error(`${response.statusCode} ${text}`))
      })
    })
    sent.on('error', reject)
    sent.end(JSON.stringify(calls))
  })
}

/** Sends calls over many connections at once; returns how many of each user were admitted. */
async function sendCalls(api: string, count: number): Promise<number[]> {
  const admitted = Array.from({ length: CALLERS }, () => 0)
  const agents = Array.from(
    { length: CONNECTIONS },
    () => new Agent({ keepAlive: true, maxSockets: 1 }),
  )
  let next = 0
  const sendSome = async (agent: Agent) => {
    while (next < count) {
      const first = next
      next += LIST
      const users = Array.from({ length: LIST }, (_, i) => (first + i) % CALLERS)
      const answers = await check(
        agent,
        api,
        users.map((user) => `u${user}`),
      )
      for (const [i, { allowed }] of answers.entries()) {
        const user = users[i] ?? 0
        if (allowed) admitted[user] = (admitted[user] ?? 0) + 1
      }
    }
  }
  await Promise.all(agents.map(sendSome))
  for (const agent of agents) agent.destroy()
  return admitted
}

/** The ids of the workers, from the line that each writes when it listens. */
function workerPids({ program }: RunningServer): readonly number[] {
  const lines = program.output().matchAll(/"pid":(\d+),"gateway":.*"msg":"listening"/g)
  return [...lines].map(([, pid]) => Number(pid))
}

async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await sleep(20)
}

/** What one user has left, by a connection of its own. */
async function remaining(api: string, user: string): Promise<number> {
  const response = await fetch(`${api}/v1/peek`, {
    method: 'POST',
    headers: { connection: 'close' },
    body: JSON.stringify({ attributes: { user } }),
  })
  return ((await response.json()) as Answer).remaining
}

test('four workers with counters in memory admit every caller exactly its limit', async () => {
  const max = CALLS / CALLERS / 2
  const server = await startWorkers(max)
  const admitted = await sendCalls(server.api, CALLS)
  // A call that was not answered in time is refused by the rule, so it may take a few calls more.
  while (admitted.some((count) => count < max)) {
    const more = await sendCalls(server.api, 2 * CALLERS * LIST)
    for (const [user, count] of more.entries()) admitted[user] = (admitted[user] ?? 0) + count
  }
  expect(admitted).toEqual(admitted.map(() => max))
  const metrics = await (await fetch(`${server.admin}/metrics`)).text()
  expect(metrics).toContain('sluice_ring_members 4\n')
  expect(metrics).toMatch(/sluice_ring_forwarded_total\{member="worker-[0-3]"\} [1-9]/)
  server.program.signal('SIGTERM')
  expect(await server.program.code()).toBe(0)
}, 600_000)

test('a worker that is restarted hands its counters over, and gets back what it owns', async () => {
  const max = 1000
  const server = await startWorkers(max)
  const spent = await sendCalls(server.api, CALLERS * LIST)
  for (const pid of workerPids(server)) {
    const started = workerPids(server).length
    process.kill(pid, 'SIGTERM')
    await until(() => workerPids(server).length > started)
  }
  // The last worker gets back what it owns a moment after it has joined.
  await vi.waitFor(async () => {
    const left = await Promise.all(spent.map((_, user) => remaining(server.api, `u${user}`)))
    expect(left).toEqual(spent.map((count) => max - count))
  }, SOON)
  expect(server.program.output()).toContain('worker exited')
}, 120_000)

test('a worker that is killed loses its own counters, and no others', async () => {
  const server = await startWorkers(1000)
  const spent = await sendCalls(server.api, CALLERS * LIST)
  const [killed] = workerPids(server)
  process.kill(killed ?? 0, 'SIGKILL')
  await until(() => workerPids(server).length === 5)
  const left = await Promise.all(spent.map((_, user) => remaining(server.api, `u${user}`)))
  const lost = left.filter((count) => count === 1000).length
  const kept = left.filter((count, user) => count === 1000 - (spent[user] ?? 0)).length
  expect(lost + kept).toBe(CALLERS)
  expect(lost).toBeGreaterThan(0)
  expect(kept).toBeGreaterThan(CALLERS / 3)
}, 120_000)

test('the sockets of workers are in a folder that is removed when they stop', async () => {
  const before = ringFolders()
  const server = await startWorkers(10)
  const [folder] = ringFolders().filter((name) => !before.includes(name))
  expect(readdirSync(join(tmpdir(), folder ?? '')).toSorted()).toEqual([
    '0.sock',
    '1.sock',
    '2.sock',
    '3.sock',
  ])
  server.program.signal('SIGTERM')
  await server.program.code()
  expect(ringFolders()).not.toContain(folder)
}, 60_000)

function ringFolders(): readonly string[] {
  return readdirSync(tmpdir()).filter((name) => name.startsWith('sluice-ring-'))
}
