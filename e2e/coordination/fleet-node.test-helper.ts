/** Nodes that are processes of their own: told what to do, stopped, killed, started late. */
import { type ChildProcess, fork } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeFolder } from '../process.test-helper.js'

const FIXTURE = fileURLToPath(new URL('./fleet-node.fixture.mjs', import.meta.url))

/** What became of one rule's units on a node, as the limiter tells it. */
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
  /** Live nodes as this one sees them. */
  readonly fleet: number
  readonly reportsWaiting: number
  readonly reportsDropped: number
  readonly givesLost: number
}

/** One decision, with the times of the machine's clock between which it was made. */
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
    /** As hex: nodes that start without the store know their counters' names by it. */
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
  /** Of each rule. */
  readonly perSecond: number
  /** @default until `rest` */
  readonly ms?: number
  readonly user?: string
}

/** As the algorithm keeps it; null: there is none. */
type Stored = Readonly<Record<string, number>> | null

/** Units in use, those of which a part has come back among them. */
export function unitsIn(state: Stored): number {
  const { count, curr, used, part = 0 } = state ?? {}
  return (count ?? curr ?? used ?? 0) + (part > 0 ? 1 : 0)
}

/** Callers that tests do not name. */
const USER = 'u1'

/** Rules meet the calls that name them, each by its caller. */
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
      // What users install, not what the tests import.
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

  /** Settles once it takes words, whether or not the store answers it. */
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

  /** Ends what `pace` began. */
  stopPace(): Promise<void> {
    return this.send('rest', {})
  }

  /** Its wall clock is so much further ahead from now on. */
  step(ms: number): Promise<void> {
    return this.send('step', { ms })
  }

  stats(): Promise<NodeStats> {
    return this.send('stats', {})
  }

  /** The state of a counter in the store. */
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

  /** Ends it as a crash would, also while it is paused. */
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

  /** Everything it decided so far; also of a node that is dead. */
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
    // A test that failed meanwhile does not wait for it.
    reply.catch(() => {})
    return reply
  }
}
