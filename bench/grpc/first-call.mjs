/**
 * How long the first calls of a node take: Envoy waits for 20 ms, and then lets a request pass
 * unlimited. A fresh `sluice serve` each time, and a client that is warm; a burst of 50 calls comes
 * as soon as the node says that it listens.
 */
import { connect } from 'node:http2'
import { startRedis } from '../../tools/redis/server.mjs'
import { describePlaces, pin, startServer, stopAll } from '../gateway/processes.mjs'
import { median, printTable } from '../report.mjs'
import { checkCalls } from './client.mjs'
import { CONSTANT, RATE_LIMIT_SERVICE } from './services.mjs'
import { startSluice } from './sluice.mjs'

const isQuick = process.argv.includes('--quick')
const STARTS = isQuick ? 3 : 9
const BURST = 50
const ENVOY_MS = 20
const { path, request, kindOf } = RATE_LIMIT_SERVICE
const body = request('admitted')

console.log(`${describePlaces()}, as is Redis\n`)
const redis = await startRedis()
try {
  pin(redis.pid, 'load')
  await warmClient()
  const rows = []
  for (const server of ['grpc-js', 'own']) {
    for (const store of ['memory', 'Redis']) rows.push(await measure(server, store))
  }
  const header = ['', 'first, ms', 'most', `burst of ${BURST}: slowest`, 'most', 'above 20 ms']
  printTable(header, rows)
} finally {
  await stopAll()
  await redis.stop()
}

/** The client's own code must not be what is slow. */
async function warmClient() {
  const { urls } = await startServer('subject', '../grpc/lane.mjs')
  const method = { ...CONSTANT, request: body, wanted: 'admitted' }
  await checkCalls({ name: 'warm-up', url: urls.url, ...method, count: 2000 })
  await stopAll()
}

async function measure(server, store) {
  const first = []
  const burst = []
  let late = 0
  for (let start = 0; start < STARTS; start++) {
    const url = store === 'Redis' ? redis.url : undefined
    const sluice = await startSluice({ server, headers: 'all', redis: url })
    const times = await callOnce(sluice.url)
    first.push(times.firstMs)
    burst.push(Math.max(...times.burstMs))
    late += times.burstMs.filter((ms) => ms > ENVOY_MS).length
    // Its answers are right, too.
    await checkCalls({
      name: server,
      ...sluice,
      path,
      request: body,
      kindOf,
      wanted: 'admitted',
      count: 1,
    })
    await stopAll()
  }
  const shown = (times) => [median(times).toFixed(1), Math.max(...times).toFixed(1)]
  const share = `${((late / (STARTS * BURST)) * 100).toFixed(1)} %`
  return [`${server}, ${store}`, ...shown(first), ...shown(burst), share]
}

/** One call, with its connection, and then a burst. */
async function callOnce(url) {
  const startMs = performance.now()
  const session = connect(url)
  const firstMs = await callMs(session, startMs)
  const burstMs = await Promise.all(Array.from({ length: BURST }, () => callMs(session)))
  session.destroy()
  return { firstMs, burstMs }
}

function callMs(session, startMs = performance.now()) {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
    })
    stream.on('error', reject)
    stream.on('close', () => resolve(performance.now() - startMs))
    stream.resume()
    stream.end(body)
  })
}
