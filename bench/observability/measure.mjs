/**
 * The cost of observability for a decision: a dashboard open in a real browser and metrics scraped
 * every second, against neither, under the same load in alternating rounds.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import {
  cpuSeconds,
  describePlaces,
  placed,
  startLoad,
  startServer,
  stopAll,
} from '../gateway/processes.mjs'
import { median, printTable } from '../report.mjs'
import { chromiumOptions } from '../../tools/chromium.mjs'

const isQuick = process.argv.includes('--quick')
const PAIRS = isQuick ? 3 : 12
const SECONDS = isQuick ? 4 : 10
const PER_SECOND = 20_000
const RISE_MAX = 0.05
const SCRAPE_MS = 1000

const token = randomBytes(24).toString('base64url')
const load = startLoad('../observability/load.mjs')
const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
let browser
try {
  const server = await startServer('subject', '../observability/server.mjs', { args: [token] })
  const options = chromiumOptions()
  const executablePath = placedChromium(options.executablePath)
  browser = await chromium.launch({ ...options, executablePath })
  const page = await browser.newPage()
  await logIn(page, server.urls.admin)
  await round(server, page, true)
  const rounds = { quiet: [], watched: [] }
  for (let pair = 0; pair < PAIRS; pair++) {
    const order = pair % 2 === 0 ? ['quiet', 'watched'] : ['watched', 'quiet']
    for (const kind of order) rounds[kind].push(await round(server, page, kind === 'watched'))
    process.stdout.write('.')
  }
  report(rounds)
} finally {
  await browser?.close()
  await stopAll()
  rmSync(folder, { recursive: true, force: true })
}

/** A browser beside the load, not on the core of the server: what is measured must not wait. */
function placedChromium(path) {
  const command = [...placed('load'), path].map((word) => `'${word}'`).join(' ')
  const file = join(folder, 'chromium')
  writeFileSync(file, `#!/bin/sh\nexec ${command} "$@"\n`, { mode: 0o755 })
  return file
}

async function logIn(page, admin) {
  await page.goto(`${admin}/`)
  await page.getByLabel('Admin token').fill(token)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: /overview/i }).waitFor()
}

async function round(server, page, isWatched) {
  const { admin, api } = server.urls
  await page.goto(isWatched ? `${admin}/` : 'about:blank')
  if (isWatched) await page.getByRole('heading', { level: 1, name: /overview/i }).waitFor()
  const scrape = async () => void (await (await fetch(`${admin}/metrics`)).text())
  const timer = isWatched ? setInterval(() => void scrape(), SCRAPE_MS) : undefined
  const before = cpuSeconds(server.pid)
  const result = await offer({ url: api, perSecond: PER_SECOND, seconds: SECONDS })
  const cpu = cpuSeconds(server.pid) - before
  clearInterval(timer)
  if (result.failed > 0) throw new Error(`${result.failed} arrays were not answered`)
  return {
    us: (cpu / result.done) * 1e6,
    rate: result.done / result.took,
    refused: result.refused / result.done,
  }
}

function offer(wanted) {
  return new Promise((resolve) => {
    load.once('message', resolve)
    load.send(wanted)
  })
}

function report({ quiet, watched }) {
  const of = (rounds, field) => median(rounds.map((each) => each[field]))
  console.log(
    `\n\n${PAIRS} alternating pairs of ${SECONDS} s, ${PER_SECOND} decisions a second offered`,
  )
  console.log('over /v1/check in arrays of 20; three rules meet each call; counters in memory')
  console.log(`${describePlaces()}, and the browser beside it\n`)
  printTable(
    ['who looks', 'CPU us per decision', 'decisions/s', 'refused'],
    [
      ['nobody', quiet],
      ['dashboard open, metrics scraped every second', watched],
    ].map(([name, rounds]) => [
      name,
      of(rounds, 'us').toFixed(3),
      Math.round(of(rounds, 'rate')),
      `${(of(rounds, 'refused') * 100).toFixed(1)} %`,
    ]),
  )
  const rises = quiet.map(({ us }, pair) => watched[pair].us / us - 1)
  const rise = median(rises)
  const isReached = rise <= RISE_MAX ? 'reached' : 'MISSED'
  const all = rises.map((each) => `${(each * 100).toFixed(1)}`).join(', ')
  console.log(`CPU per decision rises by ${(rise * 100).toFixed(1)} % (at most 5 %: ${isReached})`)
  console.log(`of each pair: ${all} %`)
}
