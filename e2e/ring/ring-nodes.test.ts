/** Nodes that hold the counters in memory, each a part; a file is the list of members. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, test, vi } from 'vitest'
import {
  type MadePair,
  makePair,
} from '../../packages/server/src/entrypoints/http/certificates.test-helper.js'
import { freePort } from '../../tools/ports.mjs'
import { startFaultProxy } from '../../tools/redis/fault-proxy.js'
import { makeFolder, stopAll } from '../process.test-helper.js'
import { type RunningServer, run, start } from '../serve.test-helper.js'

const SOON = { timeout: 60_000, interval: 100 }
const SECRET = '000102030405060708090a0b0c0d0e0f'
const TOKEN = 'an-admin-token-of-a-test-only'
/** A caller that no test exhausts by accident. */
const MAX = 1000
const USERS = Array.from({ length: 60 }, (_, n) => `u${n}`)

afterEach(stopAll)

interface Ring {
  readonly folder: string
  readonly ports: readonly number[]
  /** Starts the node of a port, or starts it again. */
  start(port: number, env?: Record<string, string>): Promise<RunningServer>
}

async function makeRing(size: number, rules = ruleOf(MAX)): Promise<Ring> {
  const folder = makeFolder()
  const ports: number[] = []
  while (ports.length < size) ports.push(await freePort())
  writeFileSync(join(folder, 'rules.yaml'), rules)
  writePeers(folder, ports)
  return {
    folder,
    ports,
    start: (port, env = {}) =>
      start(
        {
          SLUICE_RULES: 'rules.yaml',
          SLUICE_KEY_SECRET: SECRET,
          SLUICE_ADMIN_TOKEN: TOKEN,
          SLUICE_RING_LISTEN: `127.0.0.1:${port}`,
          SLUICE_RING_PEERS: 'file:peers',
          SLUICE_DATA_DIR: `data-${port}`,
          // No claim about speed: as long as a busy machine may take.
          SLUICE_STORE_DEADLINE_MS: '2000',
          ...env,
        },
        folder,
      ),
  }
}

const ruleOf = (max: number) => `rules:
  - { id: users, by: [user], limits: [{ algorithm: fixed-window, max: ${max}, window: 366d }] }
`

function writePeers(folder: string, ports: readonly number[]): void {
  const lines = ports.map((port) => `127.0.0.1:${port}\n`)
  writeFileSync(join(folder, 'peers'), lines.join(''))
}

interface Answer {
  readonly allowed: boolean
  readonly remaining: number
  readonly source: string
}

async function ask(
  { api }: RunningServer,
  path: 'check' | 'peek',
  users: readonly string[],
): Promise<readonly Answer[]> {
  const response = await fetch(`${api}/v1/${path}`, {
    method: 'POST',
    body: JSON.stringify(users.map((user) => ({ attributes: { user } }))),
  })
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  return (await response.json()) as readonly Answer[]
}

const remaining = async (server: RunningServer) =>
  (await ask(server, 'peek', USERS)).map((answer) => answer.remaining)

async function metric({ admin }: RunningServer, name: string): Promise<number> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN)
}

interface Member {
  readonly isAnswering: boolean
  readonly partitions: number
}

/** The members as the admin API of a node lists them. */
async function membersOf({ admin }: RunningServer): Promise<readonly Member[]> {
  const headers = { authorization: `Bearer ${TOKEN}` }
  const view = await (await fetch(`${admin}/admin/v1/nodes`, { headers })).json()
  return (view as { ring: readonly Member[] }).ring
}

/** Waits until each node answers for all its members. */
async function connected(servers: readonly RunningServer[]): Promise<void> {
  await vi.waitFor(async () => {
    for (const { api } of servers) {
      const { store } = (await (await fetch(`${api}/readyz`)).json()) as { store: string }
      expect(store).toBe(`memory of ${servers.length} nodes`)
    }
  }, SOON)
}

async function startAll(ring: Ring, env?: Record<string, string>): Promise<RunningServer[]> {
  const servers = await Promise.all(ring.ports.map((port) => ring.start(port, env)))
  await connected(servers)
  return servers
}

/** Charges every user once at every node. */
async function spend(servers: readonly RunningServer[]): Promise<void> {
  for (const server of servers) await ask(server, 'check', USERS)
}

const all = (left: number) => USERS.map(() => left)

describe('the nodes of a ring', () => {
  test('share each limit, keep it when one leaves, and give the part back when it returns', async () => {
    const ring = await makeRing(3)
    const servers = await startAll(ring)
    await spend(servers)
    const [first, second] = servers as [RunningServer, RunningServer, RunningServer]
    expect(await remaining(first)).toEqual(all(MAX - 3))
    const members = await membersOf(first)
    expect(members.map(({ isAnswering }) => isAnswering)).toEqual([true, true, true])
    expect(members.reduce((sum, { partitions }) => sum + partitions, 0)).toBe(128)
    second.program.signal('SIGTERM')
    expect(await second.program.code()).toBe(0)
    await vi.waitFor(async () => expect(await remaining(first)).toEqual(all(MAX - 3)), SOON)
    expect(await metric(first, 'sluice_ring_members')).toBe(2)
    const again = await ring.start(ring.ports[1] ?? 0)
    await connected([first, again, servers[2] ?? first])
    await vi.waitFor(async () => expect(await remaining(again)).toEqual(all(MAX - 3)), SOON)
    const handed = 'sluice_ring_handed_over_total{fate="received"}'.replaceAll(/[{}]/g, '\\$&')
    expect(await metric(again, handed)).toBeGreaterThan(0)
  })

  test('follow the list: one that is added owns its part, and one that is removed none', async () => {
    const ring = await makeRing(3)
    const [one = 0, other = 0, third = 0] = ring.ports
    writePeers(ring.folder, [one, other])
    const servers = [await ring.start(one), await ring.start(other)]
    await connected(servers)
    await spend(servers)
    writePeers(ring.folder, ring.ports)
    const added = await ring.start(third)
    await connected([...servers, added])
    await vi.waitFor(async () => expect(await remaining(added)).toEqual(all(MAX - 2)), SOON)
    writePeers(ring.folder, [one, other])
    await vi.waitFor(async () => {
      expect(await metric(servers[0] ?? added, 'sluice_ring_members')).toBe(2)
      expect(await remaining(servers[0] ?? added)).toEqual(all(MAX - 2))
    }, SOON)
  })

  test('lose only the counters of one that is killed, and decide for one that is frozen', async () => {
    const ring = await makeRing(3)
    const servers = await startAll(ring)
    await spend(servers)
    const [first, second, third] = servers as [RunningServer, RunningServer, RunningServer]
    second.program.signal('SIGKILL')
    await second.program.code()
    writePeers(ring.folder, [ring.ports[0] ?? 0, ring.ports[2] ?? 0])
    await connected([first, third])
    await vi.waitFor(async () => {
      const left = await remaining(first)
      expect(left.every((each) => each === MAX || each === MAX - 3)).toBe(true)
      expect(left.filter((each) => each === MAX).length).toBeLessThan(USERS.length)
    }, SOON)

    third.program.signal('SIGSTOP')
    try {
      await vi.waitFor(async () => {
        const answers = await ask(first, 'check', USERS)
        expect(answers.every(({ source }) => source === 'store')).toBe(true)
      }, SOON)
    } finally {
      third.program.signal('SIGCONT')
    }
    await vi.waitFor(async () => {
      const [left, same] = [await remaining(first), await remaining(third)]
      expect(left).toEqual(same)
      // All calls that were decided while it was frozen are added to what it had.
      expect(Math.max(...left)).toBeLessThan(MAX)
    }, SOON)
  })

  test('go on while the network to one of them drops everything, and meet again', async () => {
    const ring = await makeRing(2)
    const [one = 0, other = 0] = ring.ports
    const proxy = await startFaultProxy(other)
    // The first node knows the second by the proxy; so does the second itself.
    writePeers(ring.folder, [one, proxy.port])
    writeFileSync(
      join(ring.folder, 'second.yaml'),
      `ring: { listen: "127.0.0.1:${other}", advertise: "${proxy.address}", peers: file:peers }\n`,
    )
    const first = await ring.start(one)
    const second = await ring.start(other, {
      SLUICE_CONFIG: 'second.yaml',
      SLUICE_RING_LISTEN: '',
      SLUICE_RING_PEERS: '',
    })
    await connected([first, second])
    await spend([first])
    proxy.blackhole()
    await vi.waitFor(async () => {
      const answers = await ask(first, 'check', USERS)
      expect(answers.every(({ source }) => source === 'store')).toBe(true)
    }, SOON)
    await proxy.heal()
    await vi.waitFor(async () => {
      const [left, same] = [await remaining(first), await remaining(second)]
      expect(left).toEqual(same)
      expect(Math.max(...left)).toBeLessThan(MAX)
    }, SOON)
    await proxy.stop()
  })

  test('accept only members with a certificate of their own authority', async () => {
    const ring = await makeRing(3)
    const [own, foreign] = [makePair(ring.folder, 'own'), makePair(ring.folder, 'foreign')]
    // Each certificate is its own authority.
    const startWith = (port: number, { cert, key }: MadePair) => {
      const file = (name: string, text: string) =>
        writeFileSync(join(ring.folder, `${port}-${name}`), text)
      file('cert.pem', cert)
      file('key.pem', key)
      const tls = `{ ca: ${port}-cert.pem, cert: ${port}-cert.pem, key: ${port}-key.pem }`
      file('sluice.yaml', `ring: { listen: "127.0.0.1:${port}", peers: "file:peers", tls: ${tls} }`)
      const config = { SLUICE_CONFIG: `${port}-sluice.yaml` }
      return ring.start(port, { ...config, SLUICE_RING_LISTEN: '', SLUICE_RING_PEERS: '' })
    }
    const [one = 0, other = 0, third = 0] = ring.ports
    writePeers(ring.folder, [one, other])
    const servers = await Promise.all([startWith(one, own), startWith(other, own)])
    await connected(servers)
    await spend(servers)
    writePeers(ring.folder, ring.ports)
    const stranger = await startWith(third, foreign)
    await vi.waitFor(async () => {
      const { store } = (await (await fetch(`${stranger.api}/readyz`)).json()) as { store: string }
      expect(store).toBe('memory of 3 nodes, 2 not answering')
    }, SOON)
    expect(stranger.program.output()).toContain('self-signed certificate')
    for (const server of servers) expect(await remaining(server)).toEqual(all(MAX - 2))
  })

  test('refuse to start without a secret, and beside Redis', async () => {
    const ring = await makeRing(1)
    const listen = { SLUICE_RING_LISTEN: '127.0.0.1:18999', SLUICE_RING_PEERS: '127.0.0.1:18999' }
    const program = run(['serve', '--json'], { ...listen, SLUICE_RULES: 'rules.yaml' }, ring.folder)
    expect(await program.code()).toBe(2)
    expect(program.output()).toContain('no SLUICE_KEY_SECRET')
    const both = run(
      ['serve', '--json'],
      { ...listen, SLUICE_KEY_SECRET: SECRET, SLUICE_REDIS_URL: 'redis://127.0.0.1:1' },
      ring.folder,
    )
    expect(await both.code()).toBe(2)
    expect(both.output()).toContain('a ring beside Redis')
  })
})

test('a rolling restart of five nodes under load admits at most 1 % too many, without an error', async () => {
  const max = 100
  const users = Array.from({ length: 200 }, (_, n) => `u${n}`)
  const ring = await makeRing(5, ruleOf(max))
  const servers = await startAll(ring)
  let admitted = 0
  let errors = 0
  let isOver = false
  /** Calls one node after the other, and leaves out the one that is being restarted. */
  const load = async (offset: number) => {
    for (let n = offset; !isOver; n++) {
      const index = n % servers.length
      const server = servers[index]
      if (server === undefined || restarting === index) continue
      const some = Array.from({ length: 20 }, (_, i) => users[(n * 20 + i) % users.length] ?? '')
      try {
        const answers = await ask(server, 'check', some)
        admitted += answers.filter(({ allowed }) => allowed).length
        errors += answers.filter(({ source }) => source !== 'store').length
      } catch {
        if (restarting !== index) errors += 1
        else await sleep(5)
      }
      await sleep(10)
    }
  }
  let restarting = -1
  const loads = [0, 1, 2].map(load)
  for (const [index, port] of ring.ports.entries()) {
    restarting = index
    await sleep(50)
    const server = servers[index]
    server?.program.signal('SIGTERM')
    await server?.program.code()
    servers[index] = await ring.start(port)
    await connected(servers)
    restarting = -1
    await sleep(100)
  }
  await vi.waitFor(async () => {
    const left = await ask(servers[0] as RunningServer, 'peek', users)
    expect(left.every((each) => each.remaining === 0)).toBe(true)
  }, SOON)
  isOver = true
  await Promise.all(loads)
  expect(errors).toBe(0)
  expect(admitted).toBeGreaterThanOrEqual(max * users.length)
  expect(admitted).toBeLessThanOrEqual(1.01 * max * users.length)
})
