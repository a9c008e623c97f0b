/** Processes of a benchmark that open something, then do and answer what they are ordered. */
import { fork } from 'node:child_process'
import { once } from 'node:events'

/** The id of the first message: it has opened what it was given. */
const READY = 0
const children = new Set()
// Nothing is left behind, however the benchmark ends.
process.once('exit', () => {
  for (const child of children) child.kill('SIGKILL')
})

/** Resolves when it has opened what it was given; `path` is that of its module. */
export async function startNodeProcess(path, options) {
  const env = { ...process.env, NODE_ENV: 'production' }
  // To profile a node: `BENCH_NODE_FLAGS=--cpu-prof`.
  const execArgv = (process.env.BENCH_NODE_FLAGS ?? '').split(' ').filter((flag) => flag !== '')
  // Typed arrays are transferred unchanged.
  const child = fork(path, [JSON.stringify(options)], { env, execArgv, serialization: 'advanced' })
  children.add(child)
  const answers = readAnswers(child)
  await answers.next(READY)
  let orders = 0
  return {
    pid: child.pid,
    order: (order) => {
      orders += 1
      child.send({ id: orders, ...order })
      return answers.next(orders)
    },
    stop: async () => {
      children.delete(child)
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.disconnect()
      await ended
    },
  }
}

/** Several orders may be under way: each answer has the id of its order. */
function readAnswers(child) {
  const waiting = new Map()
  child.on('message', ({ id = READY, answer, failed }) => {
    const { resolve, reject } = waiting.get(id)
    waiting.delete(id)
    if (failed === undefined) resolve(answer)
    else reject(new Error(`a node: ${failed}`))
  })
  child.once('exit', (code) => {
    for (const { reject } of waiting.values()) reject(new Error(`a node ended with ${code}`))
  })
  return {
    next: (id) => new Promise((resolve, reject) => waiting.set(id, { resolve, reject })),
  }
}
