/** Several workers with the embedded rule store, and other processes that want its folder. */
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { requestDecision, limitsIn, type Operator, operatorOf } from './operator.test-helper.js'
import { shareRedis } from './serve-redis.test-helper.js'
import { waitForExit, run, type RunningServer, start } from './serve.test-helper.js'

const WORKERS = 3
/** Connections are distributed in turn: this many reach every worker more than once. */
const POLLS = 4 * WORKERS
const SOON = { timeout: 20_000, interval: 20 }

const redis = shareRedis()

/** In memory each worker would have its own counters, so they are in Redis. */
async function startWorkers(folder?: string): Promise<readonly [RunningServer, Operator]> {
  const server = await start(
    {
      SLUICE_WORKERS: String(WORKERS),
      SLUICE_REDIS_URL: redis().url,
      SLUICE_STORE_DEADLINE_MS: '10000',
    },
    folder,
  )
  const operator = operatorOf(server)
  await allNodes(operator)
  return [server, operator]
}

interface Node {
  readonly pid: number
  readonly rulesVersion: number
}

async function nodesOf({ curl }: Operator): Promise<readonly Node[]> {
  return ((await curl('/nodes')).json as { readonly nodes: readonly Node[] }).nodes
}

/** All workers: one that does not answer the others in time is left out of the result. */
async function allNodes(operator: Operator): Promise<readonly Node[]> {
  return vi.waitFor(async () => {
    const nodes = await nodesOf(operator)
    expect(nodes).toHaveLength(WORKERS)
    return nodes
  }, SOON)
}

async function pollAll<Seen>(poll: () => Promise<Seen>): Promise<ReadonlySet<Seen>> {
  return new Set(await Promise.all(Array.from({ length: POLLS }, poll)))
}

/** The limit of the rule `mine` for a user on every worker. */
const limits = ({ api }: RunningServer, user = 'u1') =>
  pollAll(async () => (await requestDecision(api, 'peek', { user })).limits['mine'])

const waitForLimit = (server: RunningServer, limit: number | undefined, user?: string) =>
  vi.waitFor(async () => expect(await limits(server, user)).toEqual(new Set([limit])), SOON)

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

const ruleOf = (max: number) => ({
  id: 'mine',
  by: ['user'],
  limits: [{ max, window: '1h', name: 'hourly' }],
})
const create = ({ curl }: Operator, max: number) =>
  curl('/rules', { body: JSON.stringify(ruleOf(max)) })
const patch = ({ curl }: Operator, max: number) =>
  curl('/rules/mine', {
    method: 'PATCH',
    body: JSON.stringify({ limits: ruleOf(max).limits }),
  })

describe('with three workers over the embedded rule store', () => {
  test('a change made through any of them is active on all within a second', async () => {
    const [server, operator] = await startWorkers()
    expect((await create(operator, 100)).status).toBe(201)
    await waitForLimit(server, 100)
    const waits: number[] = []
    for (let change = 1; change <= 9; change++) {
      expect((await patch(operator, change)).status).toBe(200)
      const since = performance.now()
      await waitForLimit(server, change)
      const seen = performance.now()
      // The time to query all of them when there is nothing to wait for.
      await waitForLimit(server, change)
      waits.push(seen - since - (performance.now() - seen))
    }
    // The median, because this machine may have been busy with something else.
    expect(waits.toSorted((a, b) => a - b)[4]).toBeLessThan(1000)
    const { version } = (await operator.curl('/rules/mine')).json as { readonly version: number }
    const versions = async () => (await nodesOf(operator)).map(({ rulesVersion }) => rulesVersion)
    await vi.waitFor(
      async () => expect(await versions()).toEqual([version, version, version]),
      SOON,
    )
  })

  test('overrides and keys changed through any of them are active on all', async () => {
    const [server, operator] = await startWorkers()
    await create(operator, 5)
    const override = '{"caller":{"user":"vip"},"limits":[{"max":50,"window":"1h","name":"hourly"}]}'
    expect((await operator.curl('/rules/mine/overrides', { body: override })).status).toBe(201)
    await waitForLimit(server, 50, 'vip')
    await waitForLimit(server, 5)
    const made = await operator.curl('/keys', { body: '{"user":"vip"}' })
    const { id, key } = made.json as { readonly id: string; readonly key: string }
    const limitsWithKey = () =>
      pollAll(async () => {
        const headers = { 'x-api-key': key, connection: 'close' }
        return limitsIn(await fetch(server.gateway, { headers }))['mine']
      })
    await vi.waitFor(async () => expect(await limitsWithKey()).toEqual(new Set([50])), SOON)
    await operator.curl(`/keys/${id}`, { method: 'PATCH', body: '{"state":"disabled"}' })
    await vi.waitFor(async () => expect(await limitsWithKey()).toEqual(new Set([undefined])), SOON)
    await operator.curl('/rules/mine/overrides/user=vip', { method: 'DELETE' })
    await waitForLimit(server, 5, 'vip')
  })

  test('a replaced worker has the current rules and receives the next change', async () => {
    const [server, operator] = await startWorkers()
    await create(operator, 5)
    await waitForLimit(server, 5)
    const before = (await allNodes(operator)).map(({ pid }) => pid)
    const [killed = 0] = before
    process.kill(killed, 'SIGKILL')
    await vi.waitFor(() => expect(server.program.output()).toContain('worker exited'), SOON)
    expect((await patch(operator, 6)).status).toBe(200)
    await waitForLimit(server, 6)
    const isBack = async () => {
      const pids = (await nodesOf(operator)).map(({ pid }) => pid).filter((pid) => pid !== killed)
      expect(pids.filter((pid) => !before.includes(pid))).toHaveLength(1)
    }
    await vi.waitFor(isBack, SOON)
    await waitForLimit(server, 6)
    expect((await patch(operator, 7)).status).toBe(200)
    await waitForLimit(server, 7)
  })
})

describe('a data directory', () => {
  test('belongs to one server: the next reports the owner, and gets it when the owner is dead', async () => {
    const first = await start()
    const operator = operatorOf(first)
    await create(operator, 5)
    const { folder } = first
    const [holder] = await nodesOf(operator)
    const refused = await waitForExit(run(['serve'], {}, folder))
    expect(refused.code).toBe(1)
    expect(refused.output).toContain(join(folder, '.sluice', 'rules'))
    expect(refused.output).toContain(`process ${holder?.pid}`)
    expect((await create(operator, 5)).json).toMatchObject({ error: 'rule_exists' })
    first.program.signal('SIGKILL')
    await waitForExit(first.program)
    const second = await start({}, folder)
    expect((await requestDecision(second.api, 'peek', { user: 'u1' })).limits['mine']).toBe(5)
  })

  test('is the same for one server and for several workers', async () => {
    const [several, operator] = await startWorkers()
    await create(operator, 5)
    const refused = await waitForExit(run(['serve'], {}, several.folder))
    expect([refused.code, refused.output]).toEqual([1, expect.stringContaining('.sluice')])
    several.program.signal('SIGTERM')
    expect(await waitForExit(several.program)).toMatchObject({ code: 0 })
    const one = await start({}, several.folder)
    expect((await requestDecision(one.api, 'peek', { user: 'u1' })).limits['mine']).toBe(5)
  })

  test('is released when the primary process is killed, and its workers exit', async () => {
    const [several, operator] = await startWorkers()
    await create(operator, 5)
    const pids = (await allNodes(operator)).map(({ pid }) => pid)
    several.program.signal('SIGKILL')
    await waitForExit(several.program)
    await vi.waitFor(() => expect(pids.filter(isAlive)).toEqual([]), SOON)
    const [again] = await startWorkers(several.folder)
    await waitForLimit(again, 5)
  })
})
