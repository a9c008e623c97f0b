/**
 * Real redis-server processes for tests and benchmarks: each with its own port and folder, on the
 * loopback only, without persistence by default, killed by its id. Plain JavaScript, because the
 * benchmarks run without a build; `server.d.mts` has the types.
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../ports.mjs'
import { exchange } from './resp.mjs'
import { makeFolder, serverEnded, sweepServer } from './sweeper.mjs'

const HOST = '127.0.0.1'
const START_MS_MAX = 20_000
const START_TRIES_MAX = 5
const LOOK_EVERY_MS = 5
const OUTPUT_LENGTH_MAX = 100_000
const SCAN_COUNT = 1000
/** USER_HZ, the unit of times in /proc/<pid>/stat: 100 a second wherever Node runs on Linux. */
const TICK_MS = 10

export async function startRedis(options = {}) {
  for (let tries = 1; ; tries += 1) {
    const server = new Server(options, options.port ?? (await freePort()))
    try {
      await server.start()
      return server
    } catch (error) {
      const isTaken = server.output().includes('Address already in use')
      await server.stop()
      if (!isTaken || options.port !== undefined || tries === START_TRIES_MAX) throw error
    }
  }
}

class Server {
  host = HOST
  isPaused = false
  #child
  #ended = Promise.resolve()
  #options

  constructor(options, port) {
    this.port = port
    this.#options = options
    this.folder = options.folder ?? makeFolder()
    if (options.file !== undefined) writeFileSync(this.configFile(), options.file)
  }

  get address() {
    return `${HOST}:${this.port}`
  }

  get url() {
    const { password } = this.#options
    const user = password === undefined ? '' : `:${encodeURIComponent(password)}@`
    return `redis://${user}${this.address}`
  }

  get pid() {
    if (this.#child?.pid === undefined) throw new Error(`Redis on ${this.address} does not run`)
    return this.#child.pid
  }

  get isRunning() {
    return this.#child !== undefined
  }

  /** Resolves once the server answers. */
  async start() {
    if (this.isRunning) throw new Error(`Redis on ${this.address} runs already`)
    this.spawn()
    const until = Date.now() + START_MS_MAX
    while (!(await this.answers())) {
      if (!this.isRunning) throw new Error(`redis-server ended:\n${this.output()}`)
      if (Date.now() > until) {
        throw new Error(`redis-server: no answer in ${START_MS_MAX} ms:\n${this.output()}`)
      }
      await sleep(LOOK_EVERY_MS)
    }
  }

  spawn() {
    const { command = 'redis-server', env = {} } = this.#options
    const log = openSync(this.logFile(), 'a')
    const child = spawn(command, this.args(), {
      cwd: this.folder,
      env: { ...process.env, ...env },
      // A file, not a pipe: it needs no reader, and never blocks the server.
      stdio: ['ignore', log, log],
    })
    closeSync(log)
    child.unref()
    this.#child = child
    this.isPaused = false
    if (child.pid !== undefined) sweepServer(child.pid)
    this.#ended = new Promise((resolve) => {
      child.once('error', (error) => {
        this.#child = undefined
        this.startProblem = `${command}: ${error.message}. On Debian: apt-get install redis-server`
        resolve()
      })
      child.once('exit', () => {
        this.#child = undefined
        serverEnded(child.pid)
        resolve()
      })
    })
  }

  args() {
    const { config = [], password, file } = this.#options
    const written = file === undefined ? [] : [this.configFile()]
    const port = ['--port', String(this.port), '--bind', HOST, '--protected-mode', 'yes']
    const place = ['--dir', this.folder, '--save', '', '--appendonly', 'no']
    const secret = password === undefined ? [] : ['--requirepass', password]
    // Arguments of the caller come last and take precedence.
    return [...written, ...port, ...place, ...secret, ...config]
  }

  logFile() {
    return join(this.folder, 'redis.log')
  }

  configFile() {
    return join(this.folder, 'redis.conf')
  }

  /** Whether this server answers, not another on the port. */
  async answers() {
    try {
      const [pong, info] = await this.pipeline([['PING'], ['INFO', 'server']])
      return pong === 'PONG' && String(info).includes(`process_id:${this.pid}\r\n`)
    } catch {
      return false
    }
  }

  /** Sends all commands on one connection; errors are in their places. */
  async pipeline(commands) {
    const { password } = this.#options
    if (password === undefined) return exchange(this.port, commands)
    const [, ...replies] = await exchange(this.port, [['AUTH', password], ...commands])
    return replies
  }

  async call(...words) {
    const [reply] = await this.pipeline([words])
    if (reply instanceof Error) throw reply
    return reply
  }

  async cli(...words) {
    return textOf(await this.call(...words))
  }

  async kill() {
    // This process must not exit before the server has ended.
    this.#child?.ref()
    // Only this signal ends a stopped process.
    this.signal('SIGKILL')
    await this.#ended
  }

  pause() {
    this.signal('SIGSTOP')
    this.isPaused = true
  }

  resume() {
    this.signal('SIGCONT')
    this.isPaused = false
  }

  signal(name) {
    this.#child?.kill(name)
  }

  async restart() {
    await this.kill()
    await this.start()
  }

  async stop() {
    await this.kill()
    if (this.#options.folder !== undefined) return
    rmSync(this.folder, { recursive: true, force: true })
  }

  output() {
    try {
      const written = readFileSync(this.logFile(), 'utf8').slice(-OUTPUT_LENGTH_MAX)
      return `${written}${this.startProblem ?? ''}`
    } catch {
      return this.startProblem ?? ''
    }
  }

  cpuMs() {
    // The name in parentheses may contain spaces; the fields after it start with the third.
    const stat = readFileSync(`/proc/${this.pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS
  }

  async info(section = 'default') {
    const lines = (await this.cli('INFO', section)).split('\r\n')
    const pairs = lines.filter((line) => line.includes(':')).map((line) => line.split(/:(.*)/s))
    return Object.fromEntries(pairs.map(([name, value]) => [name, value]))
  }

  async memory() {
    const info = await this.info('memory')
    return {
      usedBytes: Number(info.used_memory),
      peakBytes: Number(info.used_memory_peak),
      datasetBytes: Number(info.used_memory_dataset),
      residentBytes: Number(info.used_memory_rss),
    }
  }
}

/** As redis-cli prints it into a pipe. */
function textOf(reply) {
  if (reply instanceof Error) return reply.message
  if (Array.isArray(reply)) return reply.map(textOf).join('\n')
  return reply === null ? '' : String(reply)
}

export async function scanWithoutTtl(server) {
  const found = []
  let cursor = '0'
  do {
    const [next, keys] = await server.call('SCAN', cursor, 'COUNT', String(SCAN_COUNT))
    const ttls = await server.pipeline(keys.map((key) => ['PTTL', key]))
    found.push(...keys.filter((_, index) => ttls[index] === -1))
    cursor = next
  } while (cursor !== '0')
  return [...new Set(found)]
}
