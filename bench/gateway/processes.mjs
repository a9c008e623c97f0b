/**
 * Processes of the benchmark: the subject on one core, everything else on the others, so that the
 * load generator does not slow down the subject.
 */
import { fork, spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

if (process.platform !== 'linux') throw new Error('Linux only: CPU times are read from /proc')

const TICKS_PER_SECOND = Number(spawnSync('getconf', ['CLK_TCK']).stdout) || 100
const START_MS = 30_000
const STOP_MS = 15_000
const READY_EVERY_MS = 50
const OUTPUT_LENGTH_MAX = 10_000
const places = findPlaces()
const running = new Set()
// Nothing is left behind, however the benchmark ends.
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** The cores of each role for taskset, or nothing if cores cannot be assigned. */
function findPlaces() {
  const hasTaskset = spawnSync('taskset', ['--version']).status === 0
  const cores = hasTaskset ? allowedCores() : []
  const [subject, second, third = second] = cores
  return second === undefined ? {} : { subject, upstream: second, load: third }
}

function allowedCores() {
  const list = /^Cpus_allowed_list:\s*(.*)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]
  return (list ?? '').split(',').flatMap((range) => {
    const [first, last = first] = range.split('-').map(Number)
    return Array.from({ length: last - first + 1 }, (_, i) => first + i)
  })
}

export function describePlaces() {
  const { subject, upstream, load } = places
  if (subject === undefined) return 'processes are not pinned: no taskset, or one core'
  return `pinned: subjects on core ${subject}, upstream on ${upstream}, load on ${load}`
}

export function placed(role) {
  const core = places[role]
  return core === undefined ? [] : ['taskset', '-c', String(core)]
}

/** Moves a running process, all its threads, to the core of a role. */
export function pin(pid, role) {
  const core = places[role]
  if (core !== undefined) spawnSync('taskset', ['-acp', String(core), String(pid)])
}

/** Starts a server and waits for the line of JSON with its address. */
export function startServer(role, file, { args = [] } = {}) {
  const path = fileURLToPath(new URL(file, import.meta.url))
  const [command, ...rest] = [...placed(role), process.execPath, ...flags(role), path, ...args]
  const child = spawn(command, rest, {
    env: plainEnvironment(),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  running.add(child)
  return new Promise((resolve, reject) => {
    const fail = (why) => reject(new Error(`${file}: ${why}`))
    const timer = setTimeout(fail, START_MS, `does not listen after ${START_MS} ms`)
    child.once('error', ({ message }) => fail(message))
    child.once('exit', (code) => fail(`ended with ${code} before it listened`))
    // Keeps reading, because a full pipe would block a server that logs.
    createInterface(child.stdout).on('line', (line) => {
      const urls = readUrls(line)
      if (urls === undefined) return
      clearTimeout(timer)
      resolve({ pid: child.pid, urls })
    })
  })
}

/** Starts a program that is no script, on the core of a role; resolves once `isReady` does. */
export async function startProgram(role, program, { args = [], env = {}, isReady }) {
  const [command, ...rest] = [...placed(role), program, ...args]
  let output = ''
  const child = spawn(command, rest, {
    env: { ...plainEnvironment(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.add(child)
  let problem
  child.once('error', ({ message }) => (problem = message))
  child.once('exit', (code) => (problem = `ended with ${code} before it listened`))
  for (const stream of [child.stdout, child.stderr]) {
    // Reads all, because a full pipe would block the program.
    stream.on('data', (chunk) => (output = `${output}${chunk}`.slice(-OUTPUT_LENGTH_MAX)))
  }
  const untilMs = Date.now() + START_MS
  while (!(await isReady())) {
    if (Date.now() > untilMs) problem ??= `does not listen after ${START_MS} ms`
    if (problem !== undefined) throw new Error(`${program}: ${problem}\n${output}`)
    await sleep(READY_EVERY_MS)
  }
  return { pid: child.pid }
}

/** Production mode, without the user's own Sluice settings. */
function plainEnvironment() {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_'))
  return { ...Object.fromEntries(kept), NODE_ENV: 'production' }
}

/** To profile a subject: `BENCH_NODE_FLAGS=--cpu-prof`. */
function flags(role) {
  if (role !== 'subject') return []
  return (process.env.BENCH_NODE_FLAGS ?? '').split(' ').filter((flag) => flag !== '')
}

function readUrls(line) {
  if (!line.startsWith('{"url"') && !line.startsWith('{"gateway"')) return undefined
  return JSON.parse(line)
}

export function startLoad(file = './load.mjs') {
  const path = fileURLToPath(new URL(file, import.meta.url))
  const [execPath, ...execArgv] = [...placed('load'), process.execPath]
  const child = fork(path, [], { execPath, execArgv })
  running.add(child)
  return child
}

/** Stops the processes started here, each by its handle; resolves when all have exited. */
export async function stopAll() {
  const alive = [...running].filter(
    ({ exitCode, signalCode }) => exitCode === null && signalCode === null,
  )
  running.clear()
  await Promise.all(alive.map(stop))
}

function stop(child) {
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
  child.kill('SIGINT')
  return new Promise((resolve) => {
    child.once('exit', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}

/** Seconds of CPU that a process has used, in user and kernel mode, with all its threads. */
export function cpuSeconds(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  // The name, in brackets, may hold spaces; the fields after it count from the third.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}
