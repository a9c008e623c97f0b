/** Runs Envoy with a bootstrap, on free ports of the loopback. */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { onExit } from './exit-cleanup.mjs'

const START_MS_MAX = 20_000
const STOP_MS_MAX = 5_000

/** `envoy --version` in short, or undefined if there is none. */
export function envoyVersion(envoy) {
  const { error, stdout } = spawnSync(envoy, ['--version'], { encoding: 'utf8' })
  return error === undefined ? /\/(\d+\.\d+\.\d+)\//.exec(stdout)?.[1] : undefined
}

export async function startEnvoy(envoy, bootstrap) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-envoy-'))
  const [config, adminFile] = [join(folder, 'envoy.json'), join(folder, 'admin')]
  writeFileSync(config, JSON.stringify(bootstrap))
  const options = ['--disable-hot-restart', '--use-dynamic-base-id', '--concurrency', '1']
  const args = ['-c', config, '--admin-address-path', adminFile, '-l', 'warning', ...options]
  // A group of its own: the package for Python starts Envoy as a child.
  const child = spawn(envoy, args, { stdio: ['ignore', 'ignore', 'pipe'], detached: true })
  let log = ''
  child.stderr.on('data', (chunk) => {
    log += chunk
  })
  const exited = new Promise((resolve) => child.once('exit', resolve))
  let hasExited = false
  void exited.then(() => {
    hasExited = true
  })
  const signal = (name) => {
    if (child.pid === undefined) return
    try {
      process.kill(-child.pid, name)
    } catch {
      // It has ended.
    }
  }
  const stop = async () => {
    signal('SIGTERM')
    const isDown = await Promise.race([exited.then(() => true), sleep(STOP_MS_MAX, false)])
    if (!isDown) signal('SIGKILL')
    forget()
    rmSync(folder, { recursive: true, force: true })
  }
  const forget = onExit(() => signal('SIGKILL'))
  try {
    const admin = await until(() => {
      if (hasExited) throw new Error(`Envoy has stopped:\n${log}`)
      return existsSync(adminFile) && readFileSync(adminFile, 'utf8')
    })
    const read = async (path) => (await fetch(`http://${admin}${path}`)).text()
    await until(async () => (await read('/ready')).startsWith('LIVE'))
    const { listener_statuses: found } = JSON.parse(await read('/listeners?format=json'))
    const ports = new Map(
      found.map(({ name, local_address: at }) => [name, at.socket_address.port_value]),
    )
    return {
      stop,
      log: () => log,
      port: (name) => ports.get(name),
      stats: async (filter) => {
        const { stats } = JSON.parse(await read(`/stats?format=json&filter=${filter}`))
        return Object.fromEntries(stats.map(({ name, value }) => [name, value]))
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
}

async function until(find) {
  const endMs = performance.now() + START_MS_MAX
  while (performance.now() < endMs) {
    const found = await find()
    if (found) return found
    await sleep(20)
  }
  throw new Error('Envoy did not start in time')
}
