/** Runs `sluice serve` on free ports, with limits for the routes of `sluice-scenarios.mjs`. */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { onExit } from './exit-cleanup.mjs'

const COMMAND = fileURLToPath(new URL('../../packages/cli/bin/sluice.mjs', import.meta.url))

const START_MS_MAX = 30_000

const FREE = Object.fromEntries(
  ['GATEWAY', 'API', 'GRPC', 'ADMIN'].map((name) => [`SLUICE_${name}_LISTEN`, '127.0.0.1:0']),
)

const limit = (value, requests) =>
  `  - { key: generic_key, value: ${value}, rate_limit: { unit: hour, requests_per_unit: ${requests} } }`

const CONFIGURED = [
  'domain: configured',
  'descriptors:',
  limit('three', 3),
  limit('ten', 10),
  limit('refunded', 3),
  limit('tokens', 200),
  limit('many', 1_000_000),
  '',
].join('\n')

const RULES = `rules:
  - { id: native, match: { where: { domain: native } }, by: [ip], limits: [3/hour] }
`

/** `server` and `tls` are settings of `envoy`; without `tls` it speaks clear text. */
export async function startSluice({ server, tls, rules = RULES }) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-interop-'))
  const configured = join(folder, 'configured')
  mkdirSync(configured)
  writeFileSync(join(configured, 'configured.yaml'), CONFIGURED)
  writeFileSync(join(folder, 'rules.yaml'), rules)
  writeFileSync(
    join(folder, 'sluice.yaml'),
    JSON.stringify({ rules: 'rules.yaml', envoy: { config: 'configured', server, tls } }),
  )
  const child = spawn(process.execPath, [COMMAND, 'serve', '--json'], {
    cwd: folder,
    env: { ...process.env, ...FREE },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const forget = onExit(() => child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      output += chunk
    })
  }
  const exited = new Promise((resolve) => child.once('exit', resolve))
  const stop = async () => {
    child.kill('SIGKILL')
    await exited
    forget()
    rmSync(folder, { recursive: true, force: true })
  }
  const endMs = performance.now() + START_MS_MAX
  for (;;) {
    const line = /^\{"gateway".*\}$/m.exec(output)?.[0]
    if (line !== undefined) {
      const [host, port] = JSON.parse(line)
        .grpc.replace(/^.*\/\//, '')
        .split(':')
      return { host, port: Number(port), stop, output: () => output }
    }
    if (child.exitCode !== null || performance.now() > endMs) {
      await stop()
      throw new Error(`sluice serve did not start:\n${output}`)
    }
    await sleep(20)
  }
}
