/** Sluice as users start it: the command, with a configuration file and a rules file. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { callers, KEY_HEADER } from './calls.mjs'
import { startServer } from './processes.mjs'

const tenRules = fileURLToPath(new URL('./rules.yaml', import.meta.url))
const thisCheckout = fileURLToPath(new URL('../..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
const noRules = join(folder, 'no-rules.yaml')
writeFileSync(noRules, 'rules: []\n')

let started = 0

/** Everything else has its default. JSON is valid YAML. `root`: another checkout. */
export function startSluice({ upstream, rules, headers, root = thisCheckout }) {
  const name = `sluice-${started++}`
  const config = join(folder, `${name}.yaml`)
  const listen = '127.0.0.1:0'
  writeFileSync(
    config,
    JSON.stringify({
      rules: rules ? tenRules : noRules,
      dataDir: join(folder, name),
      gateway: { listen, headers, ...(upstream && { upstreams: [{ url: upstream }] }) },
      api: { listen },
      admin: { listen },
      identity: { apiKey: { header: KEY_HEADER }, keys: callers },
    }),
  )
  const args = ['serve', '--json', '--config', config]
  return startServer('subject', join(root, 'packages/cli/bin/sluice.mjs'), { args })
}
