/**
 * This checkout against another one, both built: the gateway with and without rules, and
 * `/v1/check`. For the cost of a change: `npm run bench -- versions --against ../before`.
 */
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { decisionCalls, forwarded } from './calls.mjs'
import { AMOUNT, measureAll, printRatios, printSubjects, ROUNDS, ratioOf } from './measure.mjs'
import { describePlaces, startLoad, startServer, stopAll } from './processes.mjs'
import { startSluice } from './sluice.mjs'

const after = fileURLToPath(new URL('../..', import.meta.url))
const before = readAgainst()

try {
  const upstream = (await startServer('upstream', './upstream.mjs')).urls.url
  const load = startLoad()
  const gateway = async (name, root, rules) => {
    const { pid, urls } = await startSluice({ upstream, rules, headers: true, root })
    return { name, pid, url: urls.gateway }
  }
  const api = async (name, root) => {
    const { pid, urls } = await startSluice({ rules: true, headers: true, root })
    return { name, pid, url: urls.api }
  }
  const gateways = {
    tenAfter: await gateway('gateway, 10 rules, after', after, true),
    tenBefore: await gateway('gateway, 10 rules, before', before, true),
    noneAfter: await gateway('gateway, no rules, after', after, false),
    noneBefore: await gateway('gateway, no rules, before', before, false),
  }
  await measureAll(load, Object.values(gateways), forwarded)
  const apis = {
    apiAfter: await api('/v1/check, after', after),
    apiBefore: await api('/v1/check, before', before),
  }
  await measureAll(load, Object.values(apis), decisionCalls)
  report({ ...gateways, ...apis })
} finally {
  await stopAll()
}

function readAgainst() {
  const at = process.argv.indexOf('--against')
  const path = at === -1 ? undefined : process.argv[at + 1]
  if (path !== undefined) return resolve(path)
  console.error('versions: found no --against; accepted: --against <another built checkout>')
  process.exit(2)
}

function report(subjects) {
  const { tenAfter, tenBefore, noneAfter, noneBefore, apiAfter, apiBefore } = subjects
  console.log(`Two checkouts, 32 connections, ${describePlaces()}`)
  console.log(`Medians of ${ROUNDS} alternating rounds of ${AMOUNT} requests, all answered 200\n`)
  printSubjects(Object.values(subjects))
  const cpu = (subject, base) => ratioOf(subject, base, 'cpu')
  printRatios('CPU per request, ratio of each pair', [
    { what: 'gateway, 10 rules: after / before', ratio: cpu(tenAfter, tenBefore) },
    { what: 'gateway, no rules: after / before', ratio: cpu(noneAfter, noneBefore) },
    { what: '10 rules / no rules, after', ratio: cpu(tenAfter, noneAfter) },
    { what: '10 rules / no rules, before', ratio: cpu(tenBefore, noneBefore) },
    { what: '/v1/check: after / before', ratio: cpu(apiAfter, apiBefore) },
  ])
}
