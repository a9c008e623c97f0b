/** One subject in a process of its own: fills its counters, then runs a round on command. */
import { subjects } from './subjects.mjs'

const [, , name, counters] = process.argv
const COUNTERS = Number(counters)
const memory = () => {
  // Twice: what the first frees of array buffers is only given back by the second.
  globalThis.gc?.()
  globalThis.gc?.()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

const decide = await subjects[name]()
const before = memory()
for (let i = 0; i < COUNTERS; i++) await decide(`user-${i}`)
const bytes = (memory() - before) / COUNTERS
process.send({ bytes })

let seed = 12345
process.on('message', (order) => void run(order))

async function run({ decisions, sync }) {
  const started = process.hrtime.bigint()
  if (sync) {
    for (let i = 0; i < decisions; i++) {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
      decide(`user-${seed % COUNTERS}`)
    }
  } else {
    for (let i = 0; i < decisions; i++) {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
      await decide(`user-${seed % COUNTERS}`)
    }
  }
  const seconds = Number(process.hrtime.bigint() - started) / 1e9
  process.send({ rate: decisions / seconds })
}
