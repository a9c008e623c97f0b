/** docs/guides/proxies/sticky-*: balancers that send all calls of a caller to one node. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import { parseData } from '../packages/core/src/index.js'
import { freePort } from '../tools/ports.mjs'
import { findService } from '../tools/services.mjs'
import { readGuideFile } from './guide-file.test-helper.js'
import {
  listensOn,
  makeFolder,
  type Program,
  startProgram,
  stopAll,
  waitFor,
} from './process.test-helper.js'
import { type RunningServer, start } from './serve.test-helper.js'

const CALLERS = Array.from(
  { length: 120 },
  (_, n) => `sk_test_sticky_${String(n).padStart(6, '0')}`,
)
const LIMIT = 3
/** A balancer notices a node within its checks, which take some seconds. */
const LOOK_EVERY_MS = 200

afterEach(stopAll)

const CONFIG = `
trustedProxies: [127.0.0.1]
identity:
  keys:
${CALLERS.map((key, n) => `    - { key: ${key}, user: u${n} }`).join('\n')}
`
const RULES = `
rules:
  - { id: users, by: [user], limits: [{ algorithm: sliding-window-log, max: ${LIMIT}, window: 1h }] }
`

interface Balanced {
  readonly port: number
  readonly nodes: RunningServer[]
  readonly folder: string
  /** Starts the node of this place again. */
  restart(place: number): Promise<void>
}

/** Three nodes with counters in memory, and a balancer of the guide in front of them. */
async function startBalanced(
  file: string,
  run: (folder: string, name: string) => Program,
): Promise<Balanced> {
  const folder = makeFolder()
  writeFileSync(join(folder, 'rules.yaml'), RULES)
  writeFileSync(join(folder, 'sluice.yaml'), CONFIG)
  const ports = [await freePort(), await freePort(), await freePort()]
  const startNode = (place: number) =>
    start(
      {
        SLUICE_RULES: 'rules.yaml',
        SLUICE_GATEWAY_LISTEN: `127.0.0.1:${ports[place]}`,
        SLUICE_DATA_DIR: `data-${place}`,
      },
      folder,
    )
  const nodes = await Promise.all([0, 1, 2].map(startNode))
  const port = await freePort()
  const text = readGuideFile(file)
    .replaceAll(/10\.0\.0\.([123]):8080/g, (_, n) => `127.0.0.1:${ports[Number(n) - 1]}`)
    .replaceAll('127.0.0.1:8000', `127.0.0.1:${port}`)
    // No caller moves because the machine was busy for a moment.
    .replaceAll(/\b500(?=ms\b)/g, '5000')
  writeFileSync(join(folder, file), text)
  const program = run(folder, file)
  await waitFor(program, () => listensOn(port))
  return {
    port,
    nodes,
    folder,
    async restart(place) {
      nodes[place] = await startNode(place)
    },
  }
}

async function isAdmitted(port: number, key: string): Promise<boolean> {
  const response = await fetch(`http://127.0.0.1:${port}/`, {
    headers: { 'x-api-key': key, connection: 'close' },
  })
  await response.arrayBuffer()
  if (response.status !== 200 && response.status !== 429) throw new Error(`${response.status}`)
  return response.status === 200
}

/** Which callers are admitted now. */
async function admittedCallers(port: number): Promise<readonly string[]> {
  const admitted: string[] = []
  for (const key of CALLERS) {
    // A node that has just gone may still get a call, which then fails.
    if (await isAdmitted(port, key).catch(() => false)) admitted.push(key)
  }
  return admitted
}

/** Calls until every caller is refused; returns all callers that were admitted meanwhile. */
async function exhaust(port: number): Promise<ReadonlySet<string>> {
  const all = new Set<string>()
  for (let quiet = 0; quiet < 2; ) {
    const admitted = await admittedCallers(port)
    for (const key of admitted) all.add(key)
    quiet = admitted.length === 0 ? quiet + 1 : 0
  }
  return all
}

function describeSticky(file: string, run: (folder: string, name: string) => Program): void {
  test(`${file} counts every caller exactly, and a node that goes moves only its own callers`, async () => {
    const balanced = await startBalanced(file, run)
    const { port, nodes } = balanced
    for (let call = 0; call < LIMIT; call++) {
      expect(await admittedCallers(port)).toHaveLength(CALLERS.length)
    }
    expect(await admittedCallers(port)).toEqual([])

    const [first] = nodes
    first?.program.signal('SIGKILL')
    await first?.program.code()
    // Its callers have a whole limit at the nodes that they go to; all others stay refused.
    const moved = await exhaust(port)
    expect(moved.size).toBeGreaterThan(CALLERS.length / 10)
    expect(moved.size).toBeLessThan((2 * CALLERS.length) / 3)

    await balanced.restart(0)
    const [caller = ''] = moved
    // Refused where it is now, until the balancer sends it back.
    while (!(await isAdmitted(port, caller).catch(() => false))) await sleep(LOOK_EVERY_MS)
    // They go back, and have a whole limit once more: the node has forgotten them.
    const returned = await exhaust(port)
    for (const key of returned) expect(moved).toContain(key)
  })
}

describe('a balancer that keeps callers at their nodes', () => {
  describeSticky('sticky-nginx.conf', (folder, name) => {
    const main = join(folder, 'main.conf')
    const user = process.getuid?.() === 0 ? 'user root;' : ''
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (each) => `${each}_temp_path ${folder}/${each};`,
    )
    writeFileSync(
      main,
      `${user} daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr;
events {}
http { access_log off; ${temporary.join(' ')} include ${join(folder, name)}; }
`,
    )
    return startProgram(findService('nginx'), ['-p', folder, '-e', 'stderr', '-c', main], {
      cwd: folder,
    })
  })

  describeSticky('sticky-haproxy.cfg', (folder, name) =>
    startProgram(findService('haproxy'), ['-db', '-f', join(folder, name)], { cwd: folder }),
  )

  test('sticky-envoy.yaml is valid YAML that hashes the key, then the address', () => {
    const { value, problems } = parseData(readGuideFile('sticky-envoy.yaml'), { file: 'envoy' })
    expect(problems).toEqual([])
    expect(value).toMatchObject({
      route: {
        route: {
          cluster: 'sluice',
          hash_policy: [
            { header: { header_name: 'x-api-key' }, terminal: true },
            { connection_properties: { source_ip: true } },
          ],
        },
      },
      cluster: { name: 'sluice', lb_policy: 'RING_HASH' },
    })
  })
})
