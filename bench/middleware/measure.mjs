/**
 * A framework bare, with Sluice, and with its usual limiter, in memory and on Redis: requests per
 * second and CPU per request. `--only express,fastify` measures some of the frameworks.
 */
import { startRedis } from '../../tools/redis/server.mjs'
import { forwarded } from '../gateway/calls.mjs'
import {
  AMOUNT,
  measureAll,
  printRatios,
  printSubjects,
  ROUNDS,
  ratioOf,
} from '../gateway/measure.mjs'
import { describePlaces, pin, startLoad, startServer, stopAll } from '../gateway/processes.mjs'

/** The most CPU per request in memory, as a multiple of the bare framework. */
const BARE_MOST = 1.1
/** `hasTarget`: the frameworks whose cost over bare has a bound. */
const FRAMEWORKS = {
  express: { title: 'Express', usual: 'express-rate-limit', hasTarget: true },
  fastify: { title: 'Fastify', usual: '@fastify/rate-limit', hasTarget: true },
  koa: { title: 'Koa', usual: 'koa-ratelimit', hasTarget: false },
  hono: { title: 'Hono', usual: 'hono-rate-limiter', hasTarget: false },
}

const redisServers = []

for (const name of readOnly()) {
  try {
    await measureFramework(name)
  } finally {
    await stopAll()
    await Promise.all(redisServers.splice(0).map((server) => server.stop()))
  }
}

function readOnly() {
  const at = process.argv.indexOf('--only')
  const known = Object.keys(FRAMEWORKS)
  const names = at === -1 ? known : (process.argv[at + 1] ?? '').split(',')
  if (names.every((name) => known.includes(name))) return names
  console.error(`--only: found ${names.join(',')}; accepted: ${known.join(', ')}, or several`)
  process.exit(2)
}

async function measureFramework(framework) {
  const subjects = await startSubjects(framework)
  for (const subject of Object.values(subjects)) await requireHeaders(subject)
  await measureAll(startLoad(), Object.values(subjects), forwarded)
  report(framework, subjects)
}

async function startSubjects(framework) {
  const { title, usual } = FRAMEWORKS[framework]
  const start = async (name, limiter, store) => {
    const args = store === 'redis' ? [limiter, await startStore()] : [limiter]
    const file = new URL(`./${framework}.mjs`, import.meta.url).href
    const { pid, urls } = await startServer('subject', file, { args })
    return { name, pid, url: urls.url, isLimited: limiter !== 'bare' }
  }
  // Those with the strictest target are neighbours.
  return {
    bare: await start(`${title}, bare`, 'bare'),
    sluice: await start('Sluice, memory', 'sluice'),
    likeUsual: await start('Sluice, memory, headers of the usual limiter', 'sluice-like-usual'),
    usual: await start(`${usual}, memory`, 'usual'),
    sluiceRedis: await start('Sluice, Redis', 'sluice', 'redis'),
    usualRedis: await start(`${usual}, Redis`, 'usual', 'redis'),
  }
}

async function startStore() {
  const server = await startRedis()
  redisServers.push(server)
  pin(server.pid, 'upstream')
  return server.url
}

/** Checks that a subject does the measured work: its answers have rate limit headers, or none. */
async function requireHeaders({ name, url, isLimited }) {
  const [{ path, headers: sent }] = forwarded
  const { status, headers } = await fetch(new URL(path, url), { headers: sent })
  const hasLimit = headers.has('ratelimit') || headers.has('x-ratelimit-limit')
  if (status === 200 && hasLimit === isLimited) return
  throw new Error(`${name}: status ${status}, ${hasLimit ? 'with' : 'without'} rate limit headers`)
}

function report(framework, subjects) {
  const { title, usual: peer, hasTarget } = FRAMEWORKS[framework]
  const { bare, sluice, likeUsual, usual, sluiceRedis, usualRedis } = subjects
  console.log(`${title}, one limit by API key, 32 connections, ${describePlaces()}`)
  console.log(`Medians of ${ROUNDS} alternating rounds of ${AMOUNT} requests, all answered 200\n`)
  printSubjects(Object.values(subjects))
  const cpu = (subject, base) => ratioOf(subject, base, 'cpu')
  const ahead = { target: 'below 1', isReached: (ratio) => ratio < 1 }
  const bound = hasTarget && {
    target: `at most ${BARE_MOST}`,
    isReached: (ratio) => ratio <= BARE_MOST,
  }
  printRatios('CPU per request, ratio of each pair', [
    { what: 'Sluice / bare, memory', ratio: cpu(sluice, bare), ...bound },
    { what: 'the same, headers of the usual limiter', ratio: cpu(likeUsual, bare) },
    { what: `${peer} / bare, memory`, ratio: cpu(usual, bare) },
    { what: `Sluice / ${peer}, memory`, ratio: cpu(sluice, usual), ...ahead },
    { what: `Sluice / ${peer}, Redis`, ratio: cpu(sluiceRedis, usualRedis), ...ahead },
  ])
}
