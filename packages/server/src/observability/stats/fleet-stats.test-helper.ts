/** Nodes that exchange snapshots through a shared board, in virtual time. */
import type { SnapshotExchange } from './snapshot-exchange.js'
import { FleetStats } from './fleet-stats.js'
import { HASHED } from './name-protection.test-helper.js'
import { encodeSnapshot } from './node-snapshot-codec.js'
import { makeNode, type TestNodeOptions } from './stats.test-helper.js'

/** Timers that a test runs. */
export class TestTimers {
  readonly waiting = new Set<() => void>()

  nowMs(): number {
    return 0
  }

  after(_ms: number, run: () => void): () => void {
    this.waiting.add(run)
    return () => void this.waiting.delete(run)
  }

  run(): void {
    const [next] = this.waiting
    if (next === undefined) throw new Error('nothing waits')
    this.waiting.delete(next)
    next()
  }
}

/** A board for several nodes that can be made to fail. */
class TestExchange {
  readonly texts = new Map<string, string>()
  reads = 0
  posts = 0
  isGone = false

  get(node: string): SnapshotExchange {
    return {
      post: async (text) => {
        this.posts++
        if (this.isGone) throw new Error('gone')
        this.texts.set(node, text)
      },
      read: async () => {
        this.reads++
        if (this.isGone) throw new Error('gone')
        return [...this.texts.values()]
      },
    }
  }
}

export function makeFleet(...all: readonly TestNodeOptions[]) {
  const board = new TestExchange()
  const nodes = all.map((options, i) => {
    const id = `n${i + 1}`
    const node = makeNode({ id, ...options })
    const timers = new TestTimers()
    const problems: unknown[] = []
    const fleet = new FleetStats({
      own: node.stats,
      exchange: board.get(id),
      names: HASHED,
      clock: { now: () => node.nowMs },
      timers,
      onProblem: (problem) => void problems.push(problem),
    })
    const post = async () => void board.texts.set(id, await encodeSnapshot(node.snapshot()))
    return { ...node, pass: node.pass, snapshot: node.snapshot, fleet, timers, problems, post }
  })
  const [one, two, three] = nodes
  if (one === undefined) throw new Error('no node')
  return { board, nodes, one, two: two ?? one, three: three ?? one }
}
