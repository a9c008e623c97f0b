/**
 * Ten clients of one caller that together want three times the limit: how much of what the limit
 * allows they get, and how many of the answers are 429. The gateway counts both.
 */
import { setMaxListeners } from 'node:events'
import { readDecisions } from './gateway.mjs'
import { subjects } from './subjects.mjs'

const CLIENTS = 10
/** Calls that one client has in flight or waiting at the most. */
const CALLS_AT_ONCE = 8
const WANTED = 3

/** `burst`: what a limit allows beyond its rate, counted from a full start. */
export const ALGORITHMS = [
  { algorithm: 'token-bucket', name: 'token bucket', burst: 1 },
  { algorithm: 'fixed-window', name: 'fixed window', burst: 0 },
  { algorithm: 'sliding-window-counter', name: 'sliding counter', burst: 0 },
]

/** A rule for each subject and algorithm, so that no subject inherits a counter. */
export function rulesOf({ max, windowS }) {
  return Object.keys(subjects).flatMap((_, s) =>
    ALGORITHMS.map(({ algorithm }) => ({
      id: `s${s}-${algorithm}`,
      match: { path: `/s${s}/${algorithm}` },
      by: ['ip'],
      limits: [{ max, window: `${windowS}s`, algorithm }],
    })),
  )
}

/** Rows of `{ subject, algorithm, used, refused, answers }`, one subject after the other. */
export async function measureShares(gateway, setting, report) {
  const rows = []
  for (const [s, subject] of Object.keys(subjects).entries()) {
    await nextEdge(setting.windowS)
    const measured = await Promise.all(
      ALGORITHMS.map((each) => measureOne(gateway, setting, { ...each, s, subject })),
    )
    rows.push(...measured)
    report(subject)
  }
  return rows
}

/** Windows begin at whole multiples of their length since 1970. */
export function nextEdge(windowS, beforeMs = 0) {
  const windowMs = windowS * 1000
  const wait = windowMs - (Date.now() % windowMs) - beforeMs
  return new Promise((resolve) => setTimeout(resolve, wait < 0 ? wait + windowMs : wait + 5))
}

async function measureOne(gateway, { max, windowS, windows }, { s, subject, algorithm, burst }) {
  const rule = `s${s}-${algorithm}`
  const seconds = windowS * windows
  const allowed = max * (windows + burst)
  const end = new AbortController()
  setMaxListeners(0, end.signal)
  const url = `${gateway.url}/s${s}/${algorithm}`
  const intervalMs = (seconds * 1000 * CLIENTS) / (allowed * WANTED)
  const running = Array.from({ length: CLIENTS }, (_, c) =>
    runClient(subjects[subject](), { url, signal: end.signal, intervalMs, offset: c / CLIENTS }),
  )
  // Before the edge: what is sent at the very end belongs to the window after it.
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000 - 20))
  const counts = await readDecisions(gateway.metrics, rule)
  end.abort()
  await Promise.all(running)
  const answers = counts.allowed + counts.refused
  return {
    subject,
    algorithm,
    answers,
    used: counts.allowed / allowed,
    refused: counts.refused / answers,
  }
}

/** Calls become due at a constant rate; those that find no room wait for it. */
async function runClient(call, { url, signal, intervalMs, offset }) {
  const since = performance.now()
  let next = 0
  const work = async () => {
    while (!signal.aborted) {
      const due = since + (next++ + offset) * intervalMs
      const wait = due - performance.now()
      if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait))
      // Rejected by the end of the measurement, or given up by the client.
      await call(url, signal).catch(() => {})
    }
  }
  await Promise.all(Array.from({ length: CALLS_AT_ONCE }, work))
}
