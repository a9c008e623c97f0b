/**
 * Processes of the benchmark: a Redis for each subject, and its clients. All Redis servers share
 * one core, the clients have the others, so that they do not compete.
 */
import { fork, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { startRedis } from '../../tools/redis/server.mjs'

const places = findPlaces()
const workers = new Set()
const servers = new Set()
// Nothing is left behind, however the benchmark ends.
process.once('exit', () => {
  for (const child of workers) child.kill('SIGKILL')
})

function findPlaces() {
  const hasTaskset = spawnSync('taskset', ['--version']).status === 0
  const [redis, ...rest] = hasTaskset ? allowedCores() : []
  return rest.length === 0 ? undefined : { redis: String(redis), worker: rest.join(',') }
}

function allowedCores() {
  const list = /^Cpus_allowed_list:\s*(.*)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]
  return (list ?? '').split(',').flatMap((range) => {
    const [first, last = first] = range.split('-').map(Number)
    return Array.from({ length: last - first + 1 }, (_, i) => first + i)
  })
}

export function describePlaces() {
  if (places === undefined) return 'processes are not pinned: no taskset, or one core'
  return `pinned: Redis on core ${places.redis}, node processes on ${places.worker}`
}

/** All threads of a running process. */
export function pin(pid, role) {
  if (places !== undefined) spawnSync('taskset', ['-acp', places[role], String(pid)])
}

export async function startStore({ isPinned = true } = {}) {
  const server = await startRedis()
  servers.add(server)
  if (isPinned) pin(server.pid, 'redis')
  return server
}

/** One process that has opened a subject and waits for commands. */
export async function startWorker(options) {
  // To profile a subject: `BENCH_NODE_FLAGS=--cpu-prof`.
  const flags = (process.env.BENCH_NODE_FLAGS ?? '').split(' ').filter((flag) => flag !== '')
  const worker = await startProcess('./worker.mjs', options, options.subject, flags)
  pin(worker.pid, 'worker')
  return worker
}

/** A process that sends calls to a subject; see generator.mjs. */
export function startGenerator() {
  return startProcess('./generator.mjs', {}, 'generator')
}

/** A proxy to a Redis with this delay in each direction. `url` is its address. */
export async function startDelay(server, delayMs) {
  const proxy = await startProcess('./delay-proxy.mjs', { port: server.port, delayMs }, 'delay')
  return { url: `redis://127.0.0.1:${proxy.first.port}`, stop: proxy.stop }
}

async function startProcess(file, options, name, execArgv = []) {
  const path = fileURLToPath(new URL(file, import.meta.url))
  const env = { ...process.env, NODE_ENV: 'production' }
  const child = fork(path, [JSON.stringify(options)], { execArgv, env })
  workers.add(child)
  const first = await answerOf(child, name)
  return {
    first,
    pid: child.pid,
    order: (order) => {
      child.send(order)
      return answerOf(child, name)
    },
    stop: () => stop(child),
  }
}

function answerOf(child, subject) {
  return new Promise((resolve, reject) => {
    const ended = (code) => reject(new Error(`${subject}: the process ended with ${code}`))
    child.once('exit', ended)
    child.once('message', (answer) => {
      child.off('exit', ended)
      if (answer.failed === undefined) resolve(answer)
      else reject(new Error(`${subject}: ${answer.failed}`))
    })
  })
}

async function stop(child) {
  workers.delete(child)
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  // It exits by itself, so that a profile is written.
  child.disconnect()
  await ended
}

/** Stops the processes started here, each by its handle. */
export async function stopAll() {
  await Promise.all([...workers].map(stop))
  await Promise.all([...servers].map((server) => server.stop()))
  servers.clear()
}

/** CPU time of Redis in microseconds, all threads, and how many scripts it ran. */
export async function readStore(server) {
  const [cpu, commands] = await Promise.all([server.info('cpu'), server.info('commandstats')])
  const calls = /calls=(\d+)/.exec(commands.cmdstat_evalsha ?? '')?.[1] ?? 0
  const cpuUs = (Number(cpu.used_cpu_user) + Number(cpu.used_cpu_sys)) * 1e6
  return { cpuUs, scripts: Number(calls) }
}
