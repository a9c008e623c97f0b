/**
 * One node with calls in flight. It tells an observer when a call begins, and waits until the
 * observer knows that the call has ended before it gives the place back.
 *
 *     node in-flight-node.fixture.mjs '{ "url": …, "rules": …, "observer": 4000, "callers": 8 }'
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLimiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'

const { url, rules, observer, callers, attributes, callMs, retryMs } = JSON.parse(process.argv[2])
const store = redisStore({ url, deadlineMs: 10_000 })
const limiter = createLimiter({ rules, store })
await store.ready
await limiter.ready()

const socket = connect(observer, '127.0.0.1')
socket.setNoDelay(true)
await once(socket, 'connect')
/** Calls that wait until the observer has counted their end, in order. */
const ending = []
socket.on('data', (bytes) => {
  for (const _ of bytes) ending.shift()?.()
})
const ended = () => new Promise((resolve) => void ending.push(resolve))

let isStopped = false
process.stdin.once('data', () => {
  isStopped = true
})

async function callOnAndOn() {
  while (!isStopped) {
    const decision = await limiter.check({ attributes }, { inFlight: true })
    if (!decision.allowed) {
      await sleep(retryMs * (0.2 + 0.8 * Math.random()))
      continue
    }
    if (decision.source !== 'store') throw new Error(`decided by ${decision.source}`)
    socket.write('+')
    await sleep(callMs * Math.random())
    const isCounted = ended()
    socket.write('-')
    await isCounted
    decision.release()
  }
}

console.log('ready')
await Promise.all(Array.from({ length: callers }, callOnAndOn))
// It stays alive, so that a place that leaked would be renewed.
console.log('stopped')
