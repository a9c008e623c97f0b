/**
 * `npm run demo -- regions`: three regions with a Redis and a server each, delays of 40 and 75 ms
 * between them, callers who call all three, and a page on which one can cut a region off and watch
 * the counts meet again. Everything runs on this machine and is removed at the end.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readNumber, requireFree } from '../options.mjs'
import { Callers } from './callers.mjs'
import { startPage } from './page-server.mjs'
import { REGIONS, startWorld } from './world.mjs'

const HELP = `Usage: npm run demo -- regions [options]

Runs three regions that share their limits and prints where to watch them. It needs redis-server.

  --port <n>      of the page (default 9080; 0: any free one)
  --cut <n>       cut a region off every so many seconds, for a third of the time (default: by hand)
  --seconds <n>   end by itself after so long (default: until Ctrl-C)
  --help          this text
`
const CUT_BY_ITSELF = 'us-east'
const CTRL_C = '\u0003'

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
  const token = randomBytes(24).toString('base64url')
  const onEnd = () => {
    if (hasEnded) return
    console.error('demo: the server of a region ended')
    void end(1)
  }
  const world = await startWorld({ folder, token, closers, onEnd })
  const callers = new Callers(world.servers)
  callers.start()
  closers.push(() => callers.stop())
  const page = await startPage({ world, callers, token, port: options.port })
  closers.push(page.stop)
  console.log(`Three regions share one limit. us-east is 40 ms from eu-west, ap-south 75 ms from both.

  page       ${page.url}
  token      ${token}
${REGIONS.map((region) => `  ${region.padEnd(9)}  ${world.servers[region].admin}/`).join('\n')}

Two callers call all three regions: steady stays within the limit, greedy wants more than twice as much.
Cut a region off on the page${process.stdin.isTTY ? ', or with the keys 1, 2 and 3' : ''}: each side then has the whole limit. Ctrl-C ends all of it.
`)
  listenToKeys(world)
  if (options.cut !== undefined) cutByItself(world, options.cut)
  if (options.seconds !== undefined) setTimeout(() => void end(0), options.seconds * 1000)
}

function readOptions() {
  try {
    const { values } = parseArgs({
      args: process.argv.slice(3),
      options: {
        port: { type: 'string', default: '9080' },
        cut: { type: 'string' },
        seconds: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    })
    if (values.help) {
      console.log(HELP)
      process.exit(0)
    }
    const seconds = (name, least) =>
      values[name] === undefined
        ? undefined
        : readNumber(`--${name}`, values[name], least, 86_400, true)
    return {
      port: readNumber('--port', values.port, 0, 65_535, true),
      cut: seconds('cut', 3),
      seconds: seconds('seconds', 1),
    }
  } catch (error) {
    console.error(`demo: ${error instanceof Error ? error.message : String(error)}\n\n${HELP}`)
    process.exit(2)
  }
}

/** Each key cuts one region off, or ends that. */
function listenToKeys(world) {
  const { stdin } = process
  if (!stdin.isTTY) return
  stdin.setRawMode(true)
  stdin.on('data', (bytes) => {
    const key = bytes.toString()
    if (key === CTRL_C || key === 'q') return void end(0)
    const region = REGIONS[Number(key) - 1]
    if (region !== undefined) void toggle(world, region)
  })
  closers.push(() => {
    stdin.setRawMode(false)
    stdin.pause()
  })
}

async function toggle(world, region) {
  await world.setCut(region, !world.isCut(region))
  console.log(`${region} is ${world.isCut(region) ? 'cut off' : 'connected again'}`)
}

function cutByItself(world, everySeconds) {
  let healing
  const timer = setInterval(() => {
    void world.setCut(CUT_BY_ITSELF, true)
    healing = setTimeout(() => void world.setCut(CUT_BY_ITSELF, false), (everySeconds * 1000) / 3)
  }, everySeconds * 1000)
  closers.push(() => {
    clearInterval(timer)
    clearTimeout(healing)
  })
}

async function end(code) {
  if (hasEnded) return
  hasEnded = true
  for (const close of closers.reverse()) await close()
  process.exit(code)
}
