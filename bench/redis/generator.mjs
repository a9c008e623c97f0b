/**
 * A process that sends calls to a subject evenly, whether or not those before them are answered,
 * and measures what each waits from when it was due. It is apart from the subject, as callers are:
 * a loop that keeps the subject's process busy would hide what a decision costs there.
 */
import { connect } from 'node:net'
import { napUntilNextTurn } from './nap.mjs'

const CALL_BYTES = 4

process.on('message', (order) => {
  run(order).then(
    (answer) => process.send(answer),
    (error) => process.send({ failed: error.stack }),
  )
})
process.on('disconnect', () => process.exit())
process.send({})

/** Calls are numbered; a subject answers each with its number. */
async function run({ path, rate, ms }) {
  const total = Math.floor((rate * ms) / 1000)
  const gapMs = 1000 / rate
  const latencies = new Float64Array(total)
  const socket = connect(path)
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  const startedMs = performance.now()
  let sent = 0
  let answered = 0
  let rest = Buffer.alloc(0)
  socket.on('data', (data) => {
    const nowMs = performance.now()
    const bytes = rest.length === 0 ? data : Buffer.concat([rest, data])
    const whole = bytes.length - (bytes.length % CALL_BYTES)
    for (let at = 0; at < whole; at += CALL_BYTES) {
      latencies[answered++] = nowMs - (startedMs + bytes.readUInt32LE(at) * gapMs)
    }
    rest = bytes.subarray(whole)
  })
  let isClosed = false
  socket.on('close', () => (isClosed = true))
  while (answered < total) {
    if (isClosed) throw new Error('The subject closed the connection')
    const nowMs = performance.now()
    const due = Math.min(total, Math.floor((nowMs - startedMs) / gapMs) + 1)
    if (due > sent) {
      const calls = Buffer.allocUnsafe((due - sent) * CALL_BYTES)
      for (let at = 0; sent < due; at += CALL_BYTES) calls.writeUInt32LE(sent++, at)
      socket.write(calls)
    }
    await napUntilNextTurn(sent < total ? startedMs + sent * gapMs : Infinity)
  }
  const seconds = (performance.now() - startedMs) / 1000
  socket.destroy()
  latencies.sort()
  const at = (share) => latencies[Math.floor((total - 1) * share)]
  return { decisions: total, seconds, p50: at(0.5), p99: at(0.99), longest: at(1) }
}
