/** Several nodes at once, each in its own process. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const FIXTURE = fileURLToPath(new URL('./decision-node.fixture.mjs', import.meta.url))

export interface NodeTask {
  readonly url: string
  readonly rules: readonly unknown[]
  readonly calls: number
  readonly waiting: number
  readonly attributes: Readonly<Record<string, string>>
  readonly layout?: 'plain' | 'packed'
}

export interface NodeResult {
  readonly allowed: number
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
