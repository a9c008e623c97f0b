/**
 * A process between a subject and its Redis that delivers every byte so many milliseconds later,
 * each way. It naps for a fraction of a millisecond while bytes are under way: timers of Node are
 * too coarse for that, and a busy loop would take the core that Redis or the subject needs.
 */
import { connect, createServer } from 'node:net'
import { napUntilNextTurn } from './nap.mjs'

const { port: targetPort, delayMs } = JSON.parse(process.argv[2])
/** Chunks under way, oldest first: the delay is the same for all, so they are due in this order. */
const underWay = []
let isDelivering = false

const server = createServer({ noDelay: true }, (client) => {
  const redis = connect({ port: targetPort, host: '127.0.0.1', noDelay: true })
  pipe(client, redis)
  pipe(redis, client)
})
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }))
process.on('disconnect', () => process.exit())

function pipe(from, to) {
  from.on('data', (chunk) => {
    underWay.push({ to, chunk, dueMs: performance.now() + delayMs })
    if (!isDelivering) void deliver()
  })
  from.on('error', () => {})
  from.on('close', () => to.destroy())
}

async function deliver() {
  isDelivering = true
  while (underWay.length > 0) {
    const nowMs = performance.now()
    let due = 0
    while (due < underWay.length && underWay[due].dueMs <= nowMs) due += 1
    for (const { to, chunk } of underWay.splice(0, due)) to.write(chunk)
    if (underWay.length > 0) await napUntilNextTurn(underWay[0].dueMs)
  }
  isDelivering = false
}
