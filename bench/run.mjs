/**
 * `npm run bench -- <name>`: installs the pinned peers, builds Sluice, runs one benchmark and
 * prints its table.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { printMachine } from './report.mjs'

const benchmarks = {
  memory: {
    about: 'decisions per second and bytes per counter at 10^6 counters, against peers',
    files: ['./memory/throughput.mjs', './memory/matching.mjs'],
  },
  accuracy: {
    about: 'how far each algorithm is from the exact log on recorded traffic',
    files: ['./accuracy/measure.mjs'],
  },
  flood: {
    about: '10^7 unique callers against 2 million counters, and growth to 5 million',
    files: ['./memory/flood.mjs'],
  },
  gateway: {
    about: 'CPU per call through the gateway and over /v1/check, against peers',
    files: ['./gateway/through.mjs', './gateway/check.mjs'],
  },
  api: {
    about: 'the second part of it: CPU per /v1/check, against a bare node:http handler',
    files: ['./gateway/check.mjs'],
  },
  grpc: {
    about: 'the rate limit service for Envoy, in memory and on Redis, against peers, by h2load',
    files: ['./grpc/measure.mjs'],
  },
  'grpc-floor': {
    about: 'what a gRPC server costs by itself: http2-unary, node:http2 and grpc-js, by h2load',
    files: ['./grpc/floor.mjs'],
  },
  'grpc-first-call': {
    about: 'how long the first calls of a fresh node take over gRPC',
    files: ['./grpc/first-call.mjs'],
  },
  middleware: {
    about: 'Express, Fastify, Koa and Hono: bare, with Sluice, and with their usual limiters',
    files: ['./middleware/measure.mjs'],
  },
  'hanging-redis': {
    about: 'how long a request waits for a Redis that never answers, with and without Sluice',
    files: ['./middleware/hanging-redis.mjs'],
  },
  clients: {
    about: 'how clients behave at a limit: the paced fetch, plain fetch, ky and got',
    files: ['./clients/measure.mjs'],
  },
  shedding: {
    about: 'what is served in overload, beside under-pressure, overload-protection and toobusy-js',
    files: ['./shedding/measure.mjs'],
  },
  priorities: {
    about: 'what priorities cost a decision, and (--against PATH) one without them',
    files: ['./memory/priorities.mjs'],
  },
  versions: {
    about: 'this checkout against another (--against PATH): gateway and /v1/check',
    files: ['./gateway/versions.mjs'],
  },
  redis: {
    about: 'decisions per second, CPU and latency on Redis, against peers',
    files: ['./redis/latency.mjs', './redis/decisions.mjs'],
  },
  'redis-latency': {
    about: 'the first part of it: latency with a network between, and few callers waiting',
    files: ['./redis/latency.mjs'],
  },
  reservations: {
    about: 'reserve and settle against a plain decision, on Redis and in memory',
    files: ['./reservations/measure.mjs'],
  },
  peak: {
    about: '58,000 decisions a second for ten minutes, by several processes on one Redis',
    files: ['./peak/measure.mjs'],
  },
  coordination: {
    about: 'over-admission, stranded share and hot keys of leased, local and split rules',
    files: ['./coordination/measure.mjs'],
  },
  regions: {
    about: 'what regions admit beyond a limit, when they know and what it costs, beside a peer',
    files: ['./regions/measure.mjs'],
  },
  observability: {
    about: 'what an open dashboard and scraped metrics cost a decision',
    files: ['./observability/measure.mjs'],
  },
  rules: {
    about: 'what overrides, known keys and a change of one rule cost, and a start with all of them',
    files: ['./rules/lookups.mjs', './rules/edits.mjs', './rules/load.mjs'],
  },
  'redis-saturation': {
    about: 'a fleet that keeps one Redis busy, with and without a slow script beside',
    files: ['./redis/saturation.mjs'],
  },
  'drop-in': {
    about:
      'how long drop-in stores take to answer while Redis is silent, and what a peer does then',
    files: ['./drop-in/silent-redis.mjs'],
  },
  'redis-memory': {
    about: 'bytes of Redis per counter, at 10^6 and 20 million counters, against peers',
    files: ['./redis/memory.mjs'],
  },
}

const name = process.argv[2]
const benchmark = name === undefined ? undefined : benchmarks[name]
if (benchmark === undefined || process.argv.includes('--help')) {
  console.log('Usage: npm run bench -- <name>\n')
  for (const [known, { about }] of Object.entries(benchmarks))
    console.log(`  ${known.padEnd(16)} ${about}`)
  process.exit(process.argv.includes('--help') || name === undefined ? 0 : 2)
}

const here = fileURLToPath(new URL('.', import.meta.url))
if (!arePeersInstalled()) run('npm', ['ci'], here)
run('npm', ['run', '--silent', 'build'], `${here}/..`)
printMachine()
for (const file of benchmark.files) await import(file)

/** Whether each is there in its pinned version: an earlier run may have installed others. */
function arePeersInstalled() {
  const { dependencies } = readJson(`${here}package.json`)
  return Object.entries(dependencies).every(([peer, version]) => {
    const file = `${here}node_modules/${peer}/package.json`
    return existsSync(file) && readJson(file).version === version
  })
}

function readJson(file) {
  return JSON.parse(readFileSync(file, 'utf8'))
}

function run(command, args, cwd) {
  // All that they say goes to stderr: a build that fails says why on stdout.
  const { status } = spawnSync(command, args, { cwd, stdio: ['ignore', 2, 'inherit'] })
  if (status !== 0) process.exit(status ?? 1)
}
