/** A server process of a test: logs to a file, is killed by its id, and ends with this process. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { chownSync, closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeFolder, serverEnded, sweepServer } from '../redis/sweeper.mjs'

const START_MS_MAX = 30_000
const POLL_EVERY_MS = 10
const OUTPUT_LENGTH_MAX = 100_000
/** Users for a server that refuses to run as root; the first that exists is used. */
const USERS = ['postgres', 'nobody']

interface Owner {
  readonly uid: number
  readonly gid: number
}

/** Undefined if this process is not root: servers then run as the current user. */
export function findOwner(): Owner | undefined {
  if (process.getuid?.() !== 0) return undefined
  for (const user of USERS) {
    try {
      const idOf = (flag: string) =>
        Number(execFileSync('id', [flag, user], { stdio: ['ignore', 'pipe', 'ignore'] }))
      return { uid: idOf('-u'), gid: idOf('-g') }
    } catch {
      // There is no such user; try the next.
    }
  }
  throw new Error(`Found none of the users ${USERS.join(', ')}; Postgres does not run as root`)
}

/** A folder that the server may write to, removed with this process at the latest. */
export function makeOwnFolder(): string {
  const folder = makeFolder('sluice-postgres-')
  const owner = findOwner()
  if (owner !== undefined) chownSync(folder, owner.uid, owner.gid)
  return folder
}

export interface ProcessOptions {
  readonly command: string
  readonly args: readonly string[]
  readonly folder: string
  /** Whether the server answers. */
  readonly answers: () => boolean
}

export class ServerProcess {
  readonly #options: ProcessOptions
  #child: ChildProcess | undefined
  #ended: Promise<void> = Promise.resolve()
  #problem = ''

  constructor(options: ProcessOptions) {
    this.#options = options
  }

  get isRunning(): boolean {
    return this.#child !== undefined
  }

  get pid(): number {
    const pid = this.#child?.pid
    if (pid === undefined) throw new Error(`${this.#options.command} does not run`)
    return pid
  }

  /** Resolves once the server answers. */
  async start(): Promise<void> {
    const { command, answers } = this.#options
    if (this.isRunning) throw new Error(`${command} runs already`)
    this.spawn()
    const until = Date.now() + START_MS_MAX
    while (!answers()) {
      if (!this.isRunning) throw new Error(`${command} ended:\n${this.output()}`)
      if (Date.now() > until) {
        throw new Error(`${command}: no answer in ${START_MS_MAX} ms:\n${this.output()}`)
      }
      await sleep(POLL_EVERY_MS)
    }
  }

  /** Resolves when the process is gone. Only SIGKILL ends a stopped process. */
  async end(signal: NodeJS.Signals): Promise<void> {
    // This process must not exit before the server has ended.
    this.#child?.ref()
    this.#child?.kill(signal)
    await this.#ended
  }

  output(): string {
    try {
      return readFileSync(this.logFile(), 'utf8').slice(-OUTPUT_LENGTH_MAX) + this.#problem
    } catch {
      return this.#problem
    }
  }

  private logFile(): string {
    return join(this.#options.folder, 'server.log')
  }

  private spawn(): void {
    const { command, args, folder } = this.#options
    const log = openSync(this.logFile(), 'a')
    const child = spawn(command, args, {
      cwd: folder,
      ...findOwner(),
      // A file, not a pipe: it needs no reader, and never blocks the server.
      stdio: ['ignore', log, log],
    })
    closeSync(log)
    child.unref()
    this.#child = child
    if (child.pid !== undefined) sweepServer(child.pid)
    this.#ended = new Promise((resolve) => {
      const gone = () => {
        this.#child = undefined
        resolve()
      }
      child.once('error', (error) => {
        this.#problem = `${command}: ${error.message}`
        gone()
      })
      child.once('exit', () => {
        if (child.pid !== undefined) serverEnded(child.pid)
        gone()
      })
    })
  }
}
