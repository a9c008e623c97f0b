/** Calls through a gateway to one upstream: what ten rules cost, and what peers cost with one. */
import { forwarded } from './calls.mjs'
import { AMOUNT, measureAll, printRatios, printSubjects, ROUNDS, ratioOf } from './measure.mjs'
import { describePlaces, startLoad, startServer, stopAll } from './processes.mjs'
import { startSluice } from './sluice.mjs'

const RULES_MOST = 1.1
/** How many of the ten rules match a call. */
const MET = 4

try {
  const subjects = await startSubjects()
  for (const subject of Object.values(subjects)) await requireLimits(subject)
  // The pair with the strictest target is measured side by side.
  await measureAll(startLoad(), Object.values(subjects), forwarded)
  report(subjects)
} finally {
  await stopAll()
}

async function startSubjects() {
  const upstream = (await startServer('upstream', './upstream.mjs')).urls.url
  const sluice = async (name, limits, options) => {
    const { pid, urls } = await startSluice({ upstream, ...options })
    return { name, limits, pid, url: urls.gateway }
  }
  const other = async (name, limits, file) => {
    const { pid, urls } = await startServer('subject', file, { args: [upstream] })
    return { name, limits, pid, url: urls.url }
  }
  return {
    ten: await sluice('Sluice, 10 rules', MET, { rules: true, headers: true }),
    none: await sluice('Sluice, no rules', 0, { rules: false, headers: true }),
    quiet: await sluice('Sluice, 10 rules, headers off', 0, { rules: true, headers: false }),
    fastify: await other('Fastify, @fastify/rate-limit, @fastify/http-proxy', 1, './fastify.mjs'),
    express: await other('Express, express-rate-limit, http-proxy-middleware', 1, './express.mjs'),
    floor: await other('node:http and undici, no limit (floor)', 0, './floor.mjs'),
  }
}

/** Checks that a subject does the measured work: its headers list this many limits. */
async function requireLimits({ name, limits, url }) {
  const [{ path, headers: sent }] = forwarded
  const { headers } = await fetch(new URL(path, url), { headers: sent })
  const policies = (headers.get('ratelimit-policy') ?? headers.get('x-ratelimit-limit'))?.split(
    ', ',
  )
  const found = policies?.length ?? 0
  if (found !== limits) throw new Error(`${name}: headers tell of ${found} limits, not ${limits}`)
}

function report(subjects) {
  const { ten, none, quiet, fastify, express, floor } = subjects
  console.log(`Calls through a gateway, 32 connections, ${describePlaces()}`)
  console.log(`Medians of ${ROUNDS} alternating rounds of ${AMOUNT} requests, all answered 200\n`)
  printSubjects(Object.values(subjects))
  const cpu = (subject, base) => ratioOf(subject, base, 'cpu')
  const ahead = { target: 'below 1', isReached: (ratio) => ratio < 1 }
  printRatios('CPU per request, ratio of each pair', [
    {
      what: '10 rules / no rules, headers on',
      ratio: cpu(ten, none),
      target: `at most ${RULES_MOST}`,
      isReached: (ratio) => ratio <= RULES_MOST,
    },
    { what: '10 rules / no rules, headers off', ratio: cpu(quiet, none) },
    { what: '10 rules / Express', ratio: cpu(ten, express), ...ahead },
    { what: '10 rules / Fastify', ratio: cpu(ten, fastify), ...ahead },
    { what: 'no rules / floor', ratio: cpu(none, floor) },
  ])
}
