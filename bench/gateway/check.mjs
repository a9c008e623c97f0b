/** `POST /v1/check` against a handler that only parses the same JSON. */
import { decisionCalls } from './calls.mjs'
import { AMOUNT, measureAll, printRatios, printSubjects, ROUNDS, ratioOf } from './measure.mjs'
import { describePlaces, startLoad, startServer, stopAll } from './processes.mjs'
import { startSluice } from './sluice.mjs'

const SHARE_LEAST = 0.7

try {
  const sluice = await startSluice({ rules: true, headers: true })
  const bare = await startServer('subject', './bare.mjs')
  const subjects = [
    { name: 'Sluice /v1/check, 10 rules', pid: sluice.pid, url: sluice.urls.api },
    { name: 'node:http that parses the JSON', pid: bare.pid, url: bare.urls.url },
  ]
  await measureAll(startLoad(), subjects, decisionCalls)
  report(subjects)
} finally {
  await stopAll()
}

function report(subjects) {
  const [sluice, bare] = subjects
  console.log(`Decisions over HTTP, 32 connections, ${describePlaces()}`)
  console.log(`Medians of ${ROUNDS} alternating rounds of ${AMOUNT} requests, all answered 200\n`)
  printSubjects(subjects)
  const goal = { target: `at least ${SHARE_LEAST}`, isReached: (ratio) => ratio >= SHARE_LEAST }
  printRatios('Sluice of bare, ratio of each pair', [
    // The inverse: half the CPU per call means twice the throughput.
    { what: 'requests per second of CPU', ratio: ratioOf(bare, sluice, 'cpu'), ...goal },
    { what: 'requests per second, as sent', ratio: ratioOf(sluice, bare, 'rate') },
  ])
}
