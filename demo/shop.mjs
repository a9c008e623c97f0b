/**
 * The shop of `npm run demo`: Sluice with generated traffic, so that the dashboard has data to
 * show. It has steady users, an importer that calls in bursts, a scraper, a credential stuffing
 * attack and a program that retries forever. Everything runs on this machine, in a folder that is
 * removed at the end.
 */
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { Agent, createServer, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createAdminClient } from '../packages/client/dist/index.js'
import { KNOWN } from './cast.mjs'
import { readNumber, requireFree } from './options.mjs'
import { seeded } from './random.mjs'
import { startSluice } from './sluice-process.mjs'
import { callsOf, SLICE_S } from './traffic.mjs'

const HELP = `Usage: npm run demo -- [options]
       npm run demo -- regions [options]

Runs Sluice with made-up traffic and prints where the dashboard is; with regions, three regions
that share their limits (see npm run demo -- regions --help).

  --port <n>      of the admin listener and dashboard (default 9090; 0: any free one)
  --scale <x>     how much traffic, 1 is about 200 calls a second (default 1, at most 20)
  --seconds <n>   end by itself after so long (default: until Ctrl-C)
  --redis <url>   count in this Redis (default: in memory)
  --quiet         print no alerts
  --help          this text
`

const SEED = 20_240_229
/** The most calls in flight: more are skipped, because the demo is not a load test. */
const UNDER_WAY_MAX = 200
/** Slices of a tenth of a second. */
const CAUGHT_UP_MAX = 20
const RULES = new URL('./rules.yaml', import.meta.url)

const options = readOptions()
const folder = mkdtempSync(join(tmpdir(), 'sluice-demo-'))
/** @type {(() => unknown)[]} Closed in reverse order. */
const closers = [() => rmSync(folder, { recursive: true, force: true })]
let hasEnded = false

try {
  await run()
} catch (error) {
  console.error(`demo: ${error instanceof Error ? error.message : String(error)}`)
  await end(1)
}

async function run() {
  process.on('SIGINT', () => void end(0))
  process.on('SIGTERM', () => void end(0))
  await requireFree(options.port)
  const receiver = await startReceiver()
  const token = randomBytes(24).toString('base64url')
  const server = await startServer({ receiver, token })
  const client = createAdminClient({ url: server.admin, token })
  const why = 'the rules of the demonstration'
  await client.applyRules(readFileSync(RULES, 'utf8'), { file: 'rules.yaml', ifMatch: '*', why })
  startTraffic(server.gateway)
  console.log(`Sluice runs with made-up traffic of about ${Math.round(200 * options.scale)} calls a second.

  dashboard  ${server.admin}/
  token      ${token}
  gateway    ${server.gateway}
  metrics    ${server.admin}/metrics
  terminal   SLUICE_ADMIN_TOKEN=${token} npx sluice top --url ${server.admin}

In it: thirteen steady users; bulk-books, which imports in bursts; a scraper at 203.0.113.66; a run
of stolen passwords from two dozen addresses; loop-logistics, which retries without end.
Alerts are printed here as a receiver gets them. Ctrl-C ends all of it.
`)
  if (options.seconds !== undefined) setTimeout(() => void end(0), options.seconds * 1000)
}

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        port: { type: 'string', default: '9090' },
        scale: { type: 'string', default: '1' },
        seconds: { type: 'string' },
        redis: { type: 'string' },
        quiet: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    })
    if (values.help) {
      console.log(HELP)
      process.exit(0)
    }
    return {
      port: readNumber('--port', values.port, 0, 65_535, true),
      scale: readNumber('--scale', values.scale, 0.1, 20, false),
      seconds:
        values.seconds === undefined
          ? undefined
          : readNumber('--seconds', values.seconds, 1, 86_400, true),
      redis: values.redis,
      quiet: values.quiet,
    }
  } catch (error) {
    console.error(`demo: ${error instanceof Error ? error.message : String(error)}\n\n${HELP}`)
    process.exit(2)
  }
}

/** Receives alerts, as a pager would. */
async function startReceiver() {
  const receiver = createServer((message, answer) => {
    const chunks = []
    message.on('data', (chunk) => chunks.push(chunk))
    message.on('end', () => {
      answer.writeHead(204).end()
      if (!options.quiet) printAlert(JSON.parse(Buffer.concat(chunks).toString()))
    })
  })
  await new Promise((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  closers.push(() => receiver.close())
  return `http://127.0.0.1:${receiver.address().port}/alerts`
}

function printAlert({ state, alert }) {
  console.log(`${new Date().toISOString()} alert ${state}: ${alert.alert}: ${alert.summary}`)
}

async function startServer({ receiver, token }) {
  const config = {
    trustedProxies: ['127.0.0.1/32'],
    identity: {
      keys: KNOWN.map(({ key, user, plan }) => ({
        sha256: createHash('sha256').update(key).digest('hex'),
        user,
        plan,
      })),
    },
    log: { level: 'error' },
    alerts: { webhook: { url: receiver }, callerExhausted: '30s', baseline: '5m' },
    shutdown: { delay: '0ms', within: '5s' },
  }
  const server = startSluice({
    folder,
    config,
    env: {
      SLUICE_ADMIN_TOKEN: token,
      SLUICE_ADMIN_LISTEN: `127.0.0.1:${options.port}`,
      SLUICE_GATEWAY_LISTEN: '127.0.0.1:0',
      SLUICE_API_LISTEN: '127.0.0.1:0',
      SLUICE_GRPC_LISTEN: '127.0.0.1:0',
      SLUICE_DATA_DIR: join(folder, 'data'),
      ...(options.redis === undefined ? {} : { SLUICE_REDIS_URL: options.redis }),
    },
    onEnd: () => {
      if (!hasEnded) void end(1)
    },
  })
  closers.push(server.stop)
  return server.listening
}

function startTraffic(gateway) {
  const random = seeded(SEED)
  const agent = new Agent({ keepAlive: true, maxSockets: 32 })
  let slice = 0
  let underWay = 0
  const send = ({ method, path, ip, key }) => {
    if (underWay >= UNDER_WAY_MAX) return
    underWay++
    const headers = { 'X-Forwarded-For': ip, ...(key === undefined ? {} : { 'X-API-Key': key }) }
    const sent = request(`${gateway}${path}`, { method, agent, headers }, (answer) => {
      answer.resume()
    })
    sent.on('error', () => {})
    sent.on('close', () => underWay--)
    sent.end()
  }
  const beganMs = performance.now()
  const timer = setInterval(() => {
    // On a busy machine missed slices are made up for, but not those of a long sleep.
    const due = Math.floor((performance.now() - beganMs) / (SLICE_S * 1000))
    for (slice = Math.max(slice, due - CAUGHT_UP_MAX); slice < due; slice++) {
      for (const call of callsOf(slice * SLICE_S, random, options.scale)) send(call)
    }
  }, SLICE_S * 1000)
  closers.push(() => {
    clearInterval(timer)
    agent.destroy()
  })
}

async function end(code) {
  if (hasEnded) return
  hasEnded = true
  for (const close of closers.reverse()) await close()
  process.exit(code)
}
