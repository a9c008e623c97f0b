/** `sluice serve` with its defaults and one domain in the format of envoyproxy/ratelimit. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startServer } from '../gateway/processes.mjs'
import { DOMAIN, KEYS, PLENTY } from './messages.mjs'

/** Calls of a closed loop wait for one another: the deadline is no part of what is measured. */
const DEADLINE = '10s'
const COMMAND = '../../packages/cli/bin/sluice.mjs'
const LISTEN = { listen: '127.0.0.1:0' }

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-envoy-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))

/** The limits as envoyproxy/ratelimit reads them. */
export const DOMAIN_FILE = `domain: ${DOMAIN}
descriptors:
  - { key: ${KEYS.admitted}, rate_limit: { unit: hour, requests_per_unit: ${PLENTY} } }
  - { key: ${KEYS.refused}, rate_limit: { unit: hour, requests_per_unit: 1 } }
`

let started = 0

/** `server` and `headers` are settings of `envoy`; without `redis`, a URL, counters are here. */
export async function startSluice({ server, headers, redis }) {
  const name = join(folder, `sluice-${started++}`)
  mkdirSync(join(name, 'config'), { recursive: true })
  writeFileSync(join(name, 'config', 'bench.yaml'), DOMAIN_FILE)
  const rules = join(name, 'rules.yaml')
  writeFileSync(rules, 'rules: []\n')
  const config = join(name, 'sluice.yaml')
  writeFileSync(
    config,
    JSON.stringify({
      rules,
      dataDir: join(name, 'data'),
      gateway: LISTEN,
      api: LISTEN,
      admin: LISTEN,
      envoy: { ...LISTEN, server, config: join(name, 'config'), deadline: DEADLINE, headers },
      ...(redis && { redis: { url: redis, deadline: DEADLINE } }),
    }),
  )
  const args = ['serve', '--json', '--config', config]
  const { pid, urls } = await startServer('subject', COMMAND, { args })
  return { pid, url: `http://${urls.grpc}` }
}
