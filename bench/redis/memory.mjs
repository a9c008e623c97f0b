/**
 * Bytes of Redis per counter: what its used_memory grows by, divided by the counters, with token
 * buckets (peers: what they have) in states such as use leaves them in, every one with its TTL.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { printTable } from '../report.mjs'
import { fillers } from './fillers.mjs'
import { startStore, stopAll } from './processes.mjs'

const quick = process.argv.includes('--quick')
const SMALL = quick ? 100_000 : 1_000_000
const LARGE = quick ? 1_000_000 : 20_000_000
const PACKED_BYTES_MOST = 50
/** A table that grows exists twice for a while. */
const HEADROOM = 1.6
const STEADY_LOOKS = 4
const LOOK_EVERY_MS = 500
const LOOKS_MAX = 240

const results = []
const left = []
try {
  for (const [name, { fill, fillFast = fill }] of Object.entries(fillers)) {
    const small = await measure(name, fill, SMALL)
    const needed = (small.bytes / SMALL) * LARGE * HEADROOM
    const isRoomy = needed < availableBytes()
    if (!isRoomy) left.push(`${name} at ${LARGE}: not run, it needs ${gigabytes(needed)}`)
    const large = isRoomy ? await measure(name, fillFast, LARGE) : undefined
    results.push({ name, small, large })
  }
  report()
} finally {
  await stopAll()
}

async function measure(name, fill, counters) {
  process.stderr.write(`${name}, ${counters} counters\n`)
  const server = await startStore()
  try {
    const before = (await server.memory()).usedBytes
    const startedMs = performance.now()
    await fill(server, counters)
    const seconds = (performance.now() - startedMs) / 1000
    const bytes = (await steadyBytes(server)) - before
    const { expires, keys } = await keysOf(server)
    return { bytes, seconds, endless: keys - expires, keys }
  } finally {
    await server.stop()
  }
}

/** Waits until memory is stable, because tables are moved gradually. */
async function steadyBytes(server) {
  let last = 0
  let steady = 0
  for (let looks = 0; looks < LOOKS_MAX && steady < STEADY_LOOKS; looks++) {
    await sleep(LOOK_EVERY_MS)
    const { usedBytes } = await server.memory()
    steady = Math.abs(usedBytes - last) < usedBytes / 10_000 ? steady + 1 : 0
    last = usedBytes
  }
  return last
}

async function keysOf(server) {
  const { db0 = '' } = await server.info('keyspace')
  const [, keys = 0, expires = 0] = /keys=(\d+),expires=(\d+)/.exec(db0) ?? []
  return { keys: Number(keys), expires: Number(expires) }
}

function availableBytes() {
  const kilobytes = /^MemAvailable:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1]
  return Number(kilobytes ?? 0) * 1024
}

function gigabytes(bytes) {
  return `${(bytes / 1e9).toFixed(2)} GB`
}

function report() {
  console.log('Bytes of Redis (used_memory) per counter, each with its TTL\n')
  printTable(
    ['', `at ${SMALL}`, `at ${LARGE}`, 'in all', 'keys', 'without TTL', 'filled in s'],
    results.map(({ name, small, large }) => [
      name,
      (small.bytes / SMALL).toFixed(1),
      large === undefined ? 'not run' : (large.bytes / LARGE).toFixed(1),
      large === undefined ? '' : gigabytes(large.bytes),
      large?.keys ?? small.keys,
      (large ?? small).endless,
      large === undefined ? '' : Math.round(large.seconds),
    ]),
  )
  for (const line of left) console.log(line)
  const packed = results.find(({ name }) => name === 'Sluice packed')?.large
  if (packed === undefined) return
  const bytes = packed.bytes / LARGE
  const verdict = bytes <= PACKED_BYTES_MOST ? 'reached' : 'NOT reached'
  const target = `at most ${PACKED_BYTES_MOST}, 1 GB for 20 million`
  console.log(`Sluice packed: ${bytes.toFixed(1)} bytes a counter; target: ${target}: ${verdict}`)
}
