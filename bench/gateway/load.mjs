/**
 * The load generator, in a process of its own: a closed loop of 32 connections that sends a fixed
 * number of requests on command, and checks that each was answered with 200.
 */
import autocannon from 'autocannon'

const CONNECTIONS = 32

process.on('message', ({ url, requests, amount }) => {
  // Every latency is kept: the histogram of autocannon counts in whole milliseconds.
  const latencies = new Float64Array(amount)
  let answered = 0
  let ended = 0n
  const others = new Map()
  const started = process.hrtime.bigint()
  // A short interval because a run ends with one; how long it took is measured here.
  const options = { url, requests, amount, connections: CONNECTIONS, sampleInt: 50 }
  const run = autocannon(options, (error, result) => {
    const seconds = Number(ended - started) / 1e9
    const { errors = 0, timeouts = 0 } = result ?? {}
    const failed = error?.message ?? findFailure({ answered, amount, errors, timeouts, others })
    process.send({ rate: amount / seconds, ...percentiles(latencies), failed })
  })
  run.on('response', (_client, status, _bytes, ms) => {
    if (answered < amount) latencies[answered] = ms
    answered += 1
    if (status !== 200) others.set(status, (others.get(status) ?? 0) + 1)
    if (answered === amount) ended = process.hrtime.bigint()
  })
})

function findFailure({ answered, amount, errors, timeouts, others }) {
  if (answered === amount && errors === 0 && timeouts === 0 && others.size === 0) return undefined
  const statuses = [...others].map(([status, count]) => `${count} with status ${status}`)
  return [`${answered} of ${amount} answered`, ...statuses, `${errors} errors`].join(', ')
}

function percentiles(latencies) {
  const sorted = latencies.toSorted()
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
  return { p50: at(0.5), p99: at(0.99) }
}
