/** Serves the page, what it shows, and the two things that it can do. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { CALLERS, MAX, WINDOW_MS } from './callers.mjs'
import { REGIONS } from './world.mjs'

const HOST = '127.0.0.1'
const LOOK_EVERY_MS = 150
const FILES = new Map([
  ['/', ['page.html', 'text/html; charset=utf-8']],
  ['/page.css', ['page.css', 'text/css; charset=utf-8']],
  ['/page.js', ['page.js', 'text/javascript; charset=utf-8']],
])
const POLICY = "default-src 'self'; img-src data:"
const HEADERS = { 'Cache-Control': 'no-store', 'Content-Security-Policy': POLICY }

export async function startPage({ world, callers, token, port }) {
  const look = watch({ world, callers, token })
  const server = createServer((message, response) => {
    answer(message, { world, state: look.state }).then(
      ({ status, type = 'text/plain', body = '' }) => {
        response.writeHead(status, { ...HEADERS, 'Content-Type': type }).end(body)
      },
      (error) => response.writeHead(500, HEADERS).end(String(error)),
    )
  })
  await new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, HOST, resolve)
  })
  return {
    url: `http://${HOST}:${server.address().port}/`,
    stop: async () => {
      look.stop()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function answer({ method, url, headers }, { world, state }) {
  const { pathname, searchParams } = new URL(url, `http://${HOST}`)
  const file = FILES.get(pathname)
  if (method === 'GET' && file !== undefined) {
    const [name, type] = file
    return { status: 200, type, body: readFileSync(new URL(name, import.meta.url)) }
  }
  if (method === 'GET' && pathname === '/state') {
    return { status: 200, type: 'application/json', body: JSON.stringify(state()) }
  }
  if (method !== 'POST' || !['/cut', '/heal'].includes(pathname)) return { status: 404 }
  // Other pages in the same browser have no part in this.
  if (headers.origin !== undefined && headers.origin !== `http://${headers.host}`) {
    return { status: 403 }
  }
  const region = searchParams.get('region')
  if (!REGIONS.includes(region)) {
    return { status: 400, body: `region: found ${region}; accepted: ${REGIONS.join(', ')}` }
  }
  await world.setCut(region, pathname === '/cut')
  return { status: 204 }
}

/** Asks the regions again and again; `state` is what they answered last. */
function watch({ world, callers, token }) {
  let shown = { regions: [], callers: [] }
  let timer
  let isStopped = false
  const round = async () => {
    const lags = await Promise.all(REGIONS.map((region) => lagOf(world.servers[region], token)))
    const counts = await Promise.all(CALLERS.map(({ name }) => callers.countedOf(name)))
    shown = {
      max: MAX,
      windowSeconds: WINDOW_MS / 1000,
      nextWindowSeconds: Math.ceil((WINDOW_MS - (Date.now() % WINDOW_MS)) / 1000),
      regions: REGIONS.map((name, i) => ({ name, isCut: world.isCut(name), lagMs: lags[i] })),
      callers: CALLERS.map(({ name, about, perSecond }, i) => {
        const admitted = callers.admittedOf(name)
        return { name, about, perSecond, counted: counts[i], admitted }
      }),
    }
    if (!isStopped) timer = setTimeout(() => void round(), LOOK_EVERY_MS)
  }
  void round()
  return {
    state: () => shown,
    stop: () => {
      isStopped = true
      clearTimeout(timer)
    },
  }
}

/** The age of the oldest unit that another region has not confirmed. */
async function lagOf({ admin }, token) {
  try {
    const headers = { authorization: `Bearer ${token}` }
    const text = await (await fetch(`${admin}/metrics`, { headers })).text()
    const found = [...text.matchAll(/^sluice_region_lag_seconds\{[^}]*\} (\S+)$/gm)]
    return Math.round(Math.max(0, ...found.map(([, seconds]) => Number(seconds))) * 1000)
  } catch {
    return undefined
  }
}
