/** Nodes in processes of their own, which tests control, pause, kill and start late. */
import { type ChildProcess, fork } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeFolder } from '../process.test-helper.js'

const FIXTURE = fileURLToPath(new URL('./fleet-node.fixture.mjs', import.meta.url))

/** What a node did with the units of one rule, from the limiter's statistics. */
interface RuleStats {
  readonly draws: number
  readonly drawn: number
  readonly spent: number
  readonly givenBack: number
  readonly lost: number
  readonly held: number
  readonly reported: number
  readonly unreported: number
  readonly overAdmitted: number
  readonly counters: number
}

export interface NodeStats {
  readonly rules: Readonly<Record<string, RuleStats>>
  /** The number of live nodes that this node knows of. */
  readonly fleet: number
  readonly reportsWaiting: number
  readonly reportsDropped: number
  readonly givesLost: number
}

/** One decision, with the times by the machine's clock between which it was made. */
export interface Row {
  readonly node: number
  readonly askedMs: number
  readonly answeredMs: number
  readonly rule: string
  readonly isAllowed: boolean
  readonly source: string
  readonly staleMs: number
}

export interface NodeOptions {
  readonly rules: readonly object[]
  readonly store: {
    readonly url: string
    readonly deadlineMs?: number
    readonly denyCacheMs?: number
    readonly fleetSize?: number
    /** In hex. Nodes that start without the store derive the names of their counters from it. */
    readonly secret?: string
  }
  /** How far its wall clock is ahead of the machine's. */
  readonly wallOffsetMs?: number
}

export interface Burst {
  readonly rule: string
  readonly count: number
  readonly user?: string
  readonly atMs?: number
}

export interface Pace {
  readonly rules: readonly string[]
  /** The rate for each rule. */
  readonly perSecond: number
  /** @default until `rest` */
  readonly ms?: number
  readonly user?: string
}

/** In the form of the algorithm; null if the counter does not exist. */
type Stored = Readonly<Record<string, number>> | null

/** Units in use; a partly refilled unit counts as in use. */
export function unitsIn(state: Stored): number {
  const { count, curr, used, part = 0 } = state ?? {}
  return (count ?? curr ?? used ?? 0) + (part > 0 ? 1 : 0)
}

/** The caller of tests that name none. */
const USER = 'u1'

/** Each rule matches the calls that name it, and counts by caller. */
export function ruleOf(id: string, limit: object, more: object = {}): object {
  return { id, match: { where: { rule: [id] } }, by: ['user'], limits: [limit], ...more }
}

/** Longer than any test. */
const PACE_MS_MAX = 120_000

const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

let started = 0

export class FleetNode {
  readonly number: number
  readonly #child: ChildProcess
  readonly #file: string
  readonly #pending = new Map<
    number,
    { resolve(result: unknown): void; reject(error: Error): void }
  >()
  readonly #ended: Promise<void>
  #lastId = 0
  #errors = ''

  private constructor({ rules, store, wallOffsetMs = 0 }: NodeOptions, onReady: () => void) {
    this.number = started++
    this.#file = join(makeFolder(), 'decisions')
    const words = { rules, store, wallOffsetMs, file: this.#file }
    const child = fork(FIXTURE, [JSON.stringify(words)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      // The built packages that users install, not the sources that tests import.
      execArgv: [],
    })
    running.add(child)
    child.stderr?.on('data', (chunk: Buffer) => {
      this.#errors += chunk.toString()
    })
    child.on('message', (message: { id: number; result?: unknown; problem?: string }) => {
      if (message.id === 0) return onReady()
      const pending = this.#pending.get(message.id)
      this.#pending.delete(message.id)
      if (message.problem === undefined) pending?.resolve(message.result)
      else pending?.reject(new Error(`Node ${this.number}: ${message.problem}`))
    })
    this.#child = child
    this.#ended = new Promise((resolve) => {
      child.once('close', () => {
        running.delete(child)
        onReady()
        const problem = new Error(`Node ${this.number} ended: ${this.#errors}`)
        for (const pending of this.#pending.values()) pending.reject(problem)
        resolve()
      })
    })
  }

  /** Resolves once it accepts commands, whether or not the store answers. */
  static async start(options: NodeOptions): Promise<FleetNode> {
    let node: FleetNode | undefined
    await new Promise<void>((resolve) => {
      node = new FleetNode(options, resolve)
    })
    if (node === undefined) throw new Error('No node')
    if (!running.has(node.#child)) throw new Error(`A node did not start: ${node.#errors}`)
    return node
  }

  burst(burst: Burst): Promise<void> {
    return this.send('burst', { user: USER, ...burst })
  }

  pace(pace: Pace): Promise<void> {
    return this.send('pace', { user: USER, ms: PACE_MS_MAX, ...pace })
  }

  /** Stops the calls that `pace` started. */
  stopPace(): Promise<void> {
    return this.send('rest', {})
  }

  /** Moves its wall clock further ahead from now on. */
  step(ms: number): Promise<void> {
    return this.send('step', { ms })
  }

  stats(): Promise<NodeStats> {
    return this.send('stats', {})
  }

  /** Reads the state of a counter from the store. */
  stored(rule: string, user = USER): Promise<Stored> {
    return this.send('stored', { rule, user })
  }

  waitForFleet(nodes: number): Promise<void> {
    return this.send('seen', { nodes })
  }

  /** Closes its limiter, as on SIGTERM, and ends. */
  async stop(): Promise<NodeStats> {
    const stats = await this.send<NodeStats>('stop', {})
    await this.kill()
    return stats
  }

  /** Kills it as a crash would, even while it is paused. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#ended
  }

  pause(): void {
    this.#child.kill('SIGSTOP')
  }

  resume(): void {
    this.#child.kill('SIGCONT')
  }

  /** All its decisions so far, even of a node that is dead. */
  rows(): readonly Row[] {
    if (!existsSync(this.#file)) return []
    const lines = readFileSync(this.#file, 'utf8').split('\n').slice(0, -1)
    return lines.map((line) => {
      const [asked, answered, rule = '', allowed, source = '', stale] = line.split(' ')
      return {
        node: this.number,
        askedMs: Number(asked),
        answeredMs: Number(answered),
        rule,
        isAllowed: allowed === '1',
        source,
        staleMs: Number(stale),
      }
    })
  }

  private send<Result>(verb: string, words: object): Promise<Result> {
    this.#lastId += 1
    const id = this.#lastId
    const reply = new Promise<Result>((resolve, reject) => {
      this.#pending.set(id, { resolve: (result) => resolve(result as Result), reject })
      this.#child.send({ id, verb, words }, (error) => {
        if (error !== null) reject(new Error(`Node ${this.number} is gone: ${this.#errors}`))
      })
    })
    // A test that has failed by then does not wait for it.
    reply.catch(() => {})
    return reply
  }
}
