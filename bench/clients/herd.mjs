/**
 * A thundering herd: a thousand clients are refused together, shortly before a fixed window ends.
 * Measured is when each of them sends its next request, in bins of the second after the first one.
 */
import { createPacedFetch } from '../../packages/client/dist/index.js'
import { nextEdge } from './shares.mjs'

const CLIENTS = 1000
const BIN_MS = 50
const BINS = 20
const WINDOW_S = 10
/** How long before the edge of the window the clients are refused. */
const BEFORE_MS = 2000
/** A busy machine may refuse the clients too late: then all is done again. */
const ATTEMPTS = 5

/** `jitter` is the gateway's setting; `isPaced` whether clients use the paced fetch. */
export const HERDS = [
  { name: 'Retry-After, without jitter', jitter: false, isPaced: false },
  { name: 'Retry-After with jitter of the gateway', jitter: true, isPaced: false },
  { name: 'paced fetch, without jitter of the gateway', jitter: false, isPaced: true },
  { name: 'paced fetch and jitter of the gateway', jitter: true, isPaced: true },
]

export const HERD_RULES = [
  {
    id: 'herd',
    match: { path: '/herd' },
    by: ['ip'],
    limits: [{ max: CLIENTS, window: `${WINDOW_S}s`, algorithm: 'fixed-window' }],
  },
]

/** `{ name, bins, within, peak, mean }`: arrivals of the second that begins with the first. */
export async function measureHerd(gateway, { name, isPaced }) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const arrivals = await arrivalsOf(gateway, isPaced)
    if (arrivals.includes(undefined)) continue
    const first = Math.min(...arrivals)
    const bins = Array(BINS).fill(0)
    for (const at of arrivals) {
      const bin = Math.floor((at - first) / BIN_MS)
      if (bin < BINS) bins[bin]++
    }
    const within = bins.reduce((sum, count) => sum + count, 0)
    return { name, bins, within, peak: Math.max(...bins), mean: within / BINS }
  }
  throw new Error(
    'herd: the clients were not refused before the window ended: the machine is too busy',
  )
}

async function arrivalsOf({ url }, isPaced) {
  const each = (call) => Promise.all(Array.from({ length: CLIENTS }, call))
  // No rule counts these calls: they open the connections, a few at a time, because the queue of
  // a listener for new ones is short.
  for (let open = 100; open <= CLIENTS; open += 100) {
    const opening = Array.from({ length: open }, () => drain(fetch(`${url}/warm-up`)))
    await Promise.allSettled(opening)
  }
  await nextEdge(WINDOW_S)
  await each(() => drain(fetch(`${url}/herd`)))
  await nextEdge(WINDOW_S, BEFORE_MS)
  return each(() => nextArrival(`${url}/herd`, isPaced))
}

/** When a client sends again after it was refused; undefined if it was not refused. */
function nextArrival(url, isPaced) {
  return new Promise((resolve) => {
    let sent = 0
    const recordingFetch = async (input, init) => {
      const isFirst = ++sent === 1
      if (!isFirst) resolve(performance.now())
      const response = await fetch(input, init)
      if (isFirst && response.status !== 429) resolve(undefined)
      return response
    }
    const call = isPaced ? createPacedFetch(recordingFetch) : retryAfter(recordingFetch)
    drain(call(url)).catch(() => resolve(undefined))
  })
}

/** Sends again after exactly `Retry-After`. */
function retryAfter(send) {
  return async (url) => {
    const response = await send(url)
    if (response.status !== 429) return response
    await response.arrayBuffer()
    const seconds = Number(response.headers.get('retry-after'))
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds))
    return send(url)
  }
}

async function drain(sending) {
  const response = await sending
  await response.arrayBuffer()
}
