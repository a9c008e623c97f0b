/** Several nodes at once, each in its own process. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const FIXTURE = fileURLToPath(new URL('./decision-node.fixture.mjs', import.meta.url))

type Attributes = Readonly<Record<string, string>>

export interface NodeTask {
  readonly url: string
  readonly rules: readonly unknown[] | object
  readonly calls: number
  readonly waiting: number
  /** Of every call, or of calls in turn. */
  readonly attributes: Attributes | readonly Attributes[]
  readonly layout?: 'plain' | 'packed'
}

export interface NodeResult {
  readonly allowed: number
  /** Refused calls of limits that had something left. */
  readonly refusedWithRoom: number
  /** With several attributes: of each admitted call, its limit and what was in use afterwards. */
  readonly units: readonly (readonly [limit: number, used: number])[]
  readonly sources: Readonly<Record<string, number>>
  readonly perSecond: number
}

/** Starts the nodes, lets them begin together, and waits for all. */
export async function runNodes(count: number, task: NodeTask): Promise<readonly NodeResult[]> {
  const nodes = Array.from({ length: count }, () => startNode(task))
  try {
    await Promise.all(nodes.map((node) => node.next()))
    for (const node of nodes) node.go()
    return await Promise.all(nodes.map(async (node) => JSON.parse(await node.next())))
  } finally {
    for (const node of nodes) node.end()
  }
}

function startNode(task: NodeTask) {
  const child = spawn(process.execPath, [FIXTURE, JSON.stringify(task)], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString()
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    async next(): Promise<string> {
      const { value, done } = await lines.next()
      if (done === true) {
        await once(child, 'close')
        throw new Error(`a node ended: ${errors}`)
      }
      return value
    },
    go: () => child.stdin.write('go\n'),
    end: () => child.kill('SIGKILL'),
  }
}
