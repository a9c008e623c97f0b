/** A gateway with one rule for each algorithm, in front of the upstream of `gateway`. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startServer } from '../gateway/processes.mjs'

const folder = mkdtempSync(join(tmpdir(), 'sluice-clients-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
const COMMAND = '../../packages/cli/bin/sluice.mjs'

let started = 0

/** Resolves to the addresses of the gateway and of its metrics. Everything else has its default. */
export async function startGateway(rules, refusals = {}) {
  const upstream = await startServer('upstream', './upstream.mjs')
  const name = `gateway-${started++}`
  const file = (content, ending) => {
    const path = join(folder, `${name}${ending}`)
    writeFileSync(path, JSON.stringify(content))
    return path
  }
  const listen = '127.0.0.1:0'
  const config = {
    rules: file({ rules }, '.rules.json'),
    dataDir: join(folder, name),
    gateway: { listen, upstreams: [{ url: upstream.urls.url, connections: 1024 }] },
    api: { listen },
    envoy: { listen },
    admin: { listen },
    refusals,
  }
  const args = ['serve', '--json', '--config', file(config, '.json')]
  const { urls } = await startServer('subject', `../clients/${COMMAND}`, { args })
  return { url: urls.gateway, metrics: `${urls.admin}/metrics` }
}

/** Decisions of a rule until now, as the gateway counted them: `{ allowed, refused }`. */
export async function readDecisions(metrics, rule) {
  const text = await (await fetch(metrics)).text()
  const counts = { allowed: 0, refused: 0 }
  for (const line of text.split('\n')) {
    if (!line.startsWith('sluice_decisions_total{') || !line.includes(`rule="${rule}"`)) continue
    const outcome = /outcome="(\w+)"/.exec(line)?.[1]
    if (outcome in counts) counts[outcome] += Number(line.slice(line.lastIndexOf(' ') + 1))
  }
  return counts
}
