/**
 * What a server of gRPC costs by itself: a constant answer by @sluice/http2-unary, node:http2 and
 * grpc-js, under h2load with 4 connections of 100 streams. Rounds of all subjects alternate.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cpuSeconds, describePlaces, placed, startServer, stopAll } from '../gateway/processes.mjs'
import { median, printTable } from '../report.mjs'

const isQuick = process.argv.includes('--quick')
const ROUNDS = isQuick ? 3 : 9

/** Calls of a round: a second or so of each subject. */
const SUBJECTS = [
  { name: 'http2-unary', file: './lane.mjs', args: [], calls: 300_000 },
  { name: 'http2-unary, promises', file: './lane.mjs', args: ['late'], calls: 200_000 },
  { name: 'http2-unary, TLS', file: './lane.mjs', args: ['tls'], calls: 200_000 },
  { name: 'node:http2', file: './node-http2.mjs', args: [], calls: 30_000 },
  { name: 'grpc-js', file: './grpc-js.mjs', args: [], calls: 15_000 },
]

/** A RateLimitRequest of one domain and one descriptor, with the prefix of gRPC. */
const REQUEST = Buffer.concat([
  Buffer.from([0, 0, 0, 0, 45, 10, 5]),
  Buffer.from('bench'),
  Buffer.from([18, 36, 10, 34, 10, 6]),
  Buffer.from('caller'),
  Buffer.from([18, 24]),
  Buffer.from('0123456789abcdef01234567'),
])

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-grpc-'))
const body = join(folder, 'body')
writeFileSync(body, REQUEST)

try {
  console.log(`${describePlaces()}\n`)
  const subjects = []
  for (const subject of SUBJECTS) {
    const { pid, urls } = await startServer('subject', `../grpc/${subject.file}`, subject)
    subjects.push({ ...subject, pid, url: urls.url, rounds: [] })
  }
  for (const subject of subjects) await load(subject)
  for (let round = 0; round < ROUNDS; round++) {
    for (const subject of subjects) subject.rounds.push(await load(subject))
  }
  printTable(
    ['', 'calls/s', 'CPU us/call', 'mean ms', 'max ms'],
    subjects.map(({ name, rounds }) => [
      name,
      Math.round(median(rounds.map(({ perSecond }) => perSecond))).toLocaleString('en'),
      median(rounds.map(({ cpuUs }) => cpuUs)).toFixed(2),
      median(rounds.map(({ meanMs }) => meanMs)).toFixed(2),
      median(rounds.map(({ maxMs }) => maxMs)).toFixed(1),
    ]),
  )
} finally {
  await stopAll()
  rmSync(folder, { recursive: true })
}

/** One round; fails unless every call has its answer. */
async function load({ name, pid, url, calls }) {
  const headers = ['content-type: application/grpc', 'te: trailers'].flatMap((line) => ['-H', line])
  const flags = ['-c4', '-m100', `-n${calls}`, '-d', body, ...headers]
  const [command, ...args] = [...placed('load'), 'h2load', ...flags, `${url}/bench.Service/Call`]
  const before = cpuSeconds(pid)
  const { stdout } = await promisify(execFile)(command, args)
  const cpuUs = ((cpuSeconds(pid) - before) / calls) * 1e6
  if (!stdout.includes(` ${calls} succeeded`)) throw new Error(`${name}: calls failed\n${stdout}`)
  const perSecond = Number(/([\d.]+) req\/s/.exec(stdout)?.[1])
  const times = /time for request: +(\S+) +(\S+) +(\S+)/.exec(stdout) ?? []
  return { cpuUs, perSecond, maxMs: readMs(times[2]), meanMs: readMs(times[3]) }
}

function readMs(text = '') {
  const unit = { us: 1e-3, ms: 1, s: 1e3 }[text.replace(/[\d.]+/, '')]
  return Number.parseFloat(text) * (unit ?? Number.NaN)
}
