/**
 * What a server of gRPC costs by itself: a constant answer by @sluice/http2-unary, node:http2 and
 * grpc-js, under h2load with 4 connections of 100 streams. Rounds of all subjects alternate.
 */
import { describePlaces, startServer, stopAll } from '../gateway/processes.mjs'
import { median, printTable } from '../report.mjs'
import { checkCalls } from './client.mjs'
import { load, SHAPE } from './h2load.mjs'
import { CONSTANT } from './services.mjs'

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

const { path, request, kindOf } = CONSTANT
const CALL = { path, request: request('admitted'), kindOf, wanted: 'admitted' }

try {
  console.log(`${describePlaces()}; h2load: ${SHAPE}\n`)
  const subjects = []
  for (const subject of SUBJECTS) {
    const { pid, urls } = await startServer('subject', `../grpc/${subject.file}`, subject)
    subjects.push({ ...subject, ...CALL, pid, url: urls.url, rounds: [] })
  }
  for (const subject of subjects) {
    subject.answerBytes = await checkCalls({ ...subject, count: 1 })
    await load(subject)
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const subject of subjects) subject.rounds.push(await load(subject))
  }
  printTable(
    ['', 'calls/s', 'CPU us/call', 'mean ms', 'p99 ms', 'max ms'],
    subjects.map(({ name, rounds }) => [
      name,
      Math.round(median(rounds.map(({ perSecond }) => perSecond))).toLocaleString('en'),
      median(rounds.map(({ cpuUs }) => cpuUs)).toFixed(2),
      median(rounds.map(({ meanMs }) => meanMs)).toFixed(2),
      median(rounds.map(({ p99Ms }) => p99Ms)).toFixed(1),
      median(rounds.map(({ maxMs }) => maxMs)).toFixed(1),
    ]),
  )
} finally {
  await stopAll()
}
