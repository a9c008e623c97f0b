/**
 * Real Postgres servers for tests: each with its own port and folder, on the loopback only, open to
 * all local users, killed by its id. As root it runs as another user, since it refuses root.
 */
import { execFile, execFileSync } from 'node:child_process'
import {
  accessSync,
  chownSync,
  constants,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { freePort } from '../ports.mjs'
import { findService } from '../services.mjs'
import { findOwner, makeOwnFolder, ServerProcess } from './server-process.js'

const HOST = '127.0.0.1'
const ADMIN = 'postgres'
const START_TRIES_MAX = 5
const END_MS_MAX = 30_000
const LOOK_EVERY_MS = 5
const PSQL_OUTPUT_MAX = 64 * 1024 * 1024
/** Where Debian keeps the server programs, by version. */
const DEBIAN_FOLDER = '/usr/lib/postgresql'

export interface PostgresOptions {
  /** Whether committed data survives a crash of the machine, not only of Postgres. */
  readonly fsync?: boolean
  /** More settings, `name=value`. */
  readonly config?: readonly string[]
  /** Files that only the server may read, by name, in the folder above its data. */
  readonly files?: Readonly<Record<string, string>>
}

export interface PostgresServer {
  readonly port: number
  readonly host: string
  /** The URL of the database `postgres`, as its superuser. */
  readonly url: string
  /** The folder of its Unix socket. */
  readonly socketFolder: string
  readonly pid: number
  readonly isRunning: boolean
  /** Makes an empty database and returns its URL. */
  createDatabase(): Promise<string>
  /** The output of psql for a query, unaligned and without headers; throws its error. */
  psql(sql: string, url?: string): Promise<string>
  /** Runs a program of Postgres, such as `pg_dump`, on one of its databases. */
  run(program: string, ...args: readonly string[]): Promise<string>
  /** Kills it like a crash, even while it is paused. */
  kill(): Promise<void>
  /** Starts it after `kill`, on the same port with the same data. */
  start(): Promise<void>
  restart(): Promise<void>
  /** Stops the processes of the server and its connections, so that nothing is answered. */
  pause(): void
  resume(): void
  /** Ends it and removes its folder. */
  stop(): Promise<void>
  output(): string
}

/** Starts a server on the loopback; resolves once it answers. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  for (let tries = 1; ; tries += 1) {
    const server = new Server(options, await freePort())
    try {
      await server.start()
      return server
    } catch (error) {
      const isTaken = server.output().includes('Address already in use')
      await server.stop()
      if (!isTaken || tries === START_TRIES_MAX) throw error
    }
  }
}

/** Finds a server program on the PATH, or where Debian keeps it. */
function findProgram(program: string): string {
  const versions = firstExisting(() => readdirSync(DEBIAN_FOLDER)) ?? []
  const newest = versions.toSorted((a, b) => Number(b) - Number(a))
  const folders = [
    ...newest.map((version) => join(DEBIAN_FOLDER, version, 'bin')),
    dirname(findService('psql')),
  ]
  const found = folders
    .map((folder) => join(folder, program))
    .find((path) => firstExisting(() => (accessSync(path, constants.X_OK), path)))
  if (found !== undefined) return found
  throw new Error(`${program}: found none in ${folders.join(', ')}. On Debian: postgresql`)
}

function firstExisting<T>(list: () => T): T | undefined {
  try {
    return list()
  } catch {
    return undefined
  }
}

class Server implements PostgresServer {
  readonly host = HOST
  readonly port: number
  readonly socketFolder = makeOwnFolder()
  readonly #process: ServerProcess
  #databases = 0

  constructor({ fsync = false, config = [], files = {} }: PostgresOptions, port: number) {
    this.port = port
    for (const [name, text] of Object.entries(files)) this.writeFile(name, text)
    const data = join(this.socketFolder, 'data')
    const settings = [
      `unix_socket_directories=${this.socketFolder}`,
      `fsync=${fsync ? 'on' : 'off'}`,
      'max_connections=200',
      'timezone=UTC',
      ...config,
    ]
    execFileSync(
      findProgram('initdb'),
      ['-D', data, '-U', ADMIN, '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '-N'],
      { ...findOwner(), cwd: this.socketFolder, stdio: ['ignore', 'ignore', 'inherit'] },
    )
    this.#process = new ServerProcess({
      command: findProgram('postgres'),
      args: [
        '-D',
        data,
        '-h',
        HOST,
        '-p',
        String(port),
        ...settings.flatMap((setting) => ['-c', setting]),
      ],
      folder: this.socketFolder,
      answers: () => this.answers(),
    })
  }

  get url(): string {
    return this.urlOf(ADMIN)
  }

  get pid(): number {
    return this.#process.pid
  }

  get isRunning(): boolean {
    return this.#process.isRunning
  }

  async createDatabase(): Promise<string> {
    this.#databases += 1
    const name = `test_${this.#databases}`
    await this.psql(`create database ${name}`)
    return this.urlOf(name)
  }

  async psql(sql: string, url = this.url): Promise<string> {
    return (await this.run('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', url, '-c', sql)).trim()
  }

  async run(program: string, ...args: readonly string[]): Promise<string> {
    const options = { cwd: '/', maxBuffer: PSQL_OUTPUT_MAX }
    const { stdout } = await promisify(execFile)(findProgram(program), args, options)
    return stdout
  }

  async kill(): Promise<void> {
    if (!this.isRunning) return
    // A stopped server starts no more processes, so none is missed.
    signal(this.pid, 'SIGSTOP')
    await until(() => stateOf(this.pid) === STOPPED || !this.isRunning)
    const pids = this.isRunning ? this.pids() : []
    for (const pid of pids) signal(pid, 'SIGKILL')
    await this.#process.end('SIGKILL')
    // Each process holds the shared memory until it ends; a new server refuses to start before.
    await until(() => pids.map(stateOf).every((state) => state === undefined || state === ENDED))
  }

  start(): Promise<void> {
    return this.#process.start()
  }

  async restart(): Promise<void> {
    await this.kill()
    await this.start()
  }

  pause(): void {
    for (const pid of this.pids()) signal(pid, 'SIGSTOP')
  }

  resume(): void {
    for (const pid of this.pids()) signal(pid, 'SIGCONT')
  }

  async stop(): Promise<void> {
    if (this.isRunning) this.resume()
    // Immediate: its data is removed anyway, and its shared memory is released.
    await this.#process.end('SIGQUIT')
    rmSync(this.socketFolder, { recursive: true, force: true })
  }

  output(): string {
    return this.#process.output()
  }

  private writeFile(name: string, text: string): void {
    const path = join(this.socketFolder, name)
    writeFileSync(path, text, { mode: 0o600 })
    const owner = findOwner()
    if (owner !== undefined) chownSync(path, owner.uid, owner.gid)
  }

  private urlOf(database: string): string {
    return `postgres://${ADMIN}@${HOST}:${this.port}/${database}`
  }

  /** Whether this server answers, not another on the port: the socket is its own. */
  private answers(): boolean {
    const args = ['-q', '-h', this.socketFolder, '-p', String(this.port)]
    return firstExisting(() => execFileSync(findProgram('pg_isready'), args)) !== undefined
  }

  /** The main process first, so that it starts no others meanwhile. */
  private pids(): readonly number[] {
    const children = readFileSync(`/proc/${this.pid}/task/${this.pid}/children`, 'utf8')
    return [this.pid, ...children.trim().split(/\s+/).filter(Boolean).map(Number)]
  }
}

/** From /proc: a process that has exited stays a zombie until its exit code is read. */
const STOPPED = 'T'
const ENDED = 'Z'

/** Undefined if the process no longer exists. */
function stateOf(pid: number): string | undefined {
  // The name before it is in parentheses, and may itself contain parentheses.
  return firstExisting(() =>
    readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.charAt(0),
  )
}

async function until(isSo: () => boolean): Promise<void> {
  const deadline = Date.now() + END_MS_MAX
  while (!isSo()) {
    if (Date.now() > deadline) throw new Error(`Postgres: not ended in ${END_MS_MAX} ms`)
    await sleep(LOOK_EVERY_MS)
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  firstExisting(() => process.kill(pid, name))
}
