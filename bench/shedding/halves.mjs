/** The two halves of the benchmark: how each starts a subject and runs a profile against it. */
import { once } from 'node:events'
import { createHash } from 'node:crypto'
import { startLoad, startServer, stopAll } from '../gateway/processes.mjs'
import { subjects as inFlightSubjects } from './in-flight-subjects.mjs'

/** What a call of the busy handler takes on an idle machine. */
const WORK_MS = 5

async function ask(child, message) {
  child.send(message)
  const [answer] = await once(child, 'message')
  return answer
}

/** A process for every run: no subject inherits what another left waiting. */
async function inProcess(message) {
  const child = startLoad('../shedding/in-flight-process.mjs')
  try {
    return await ask(child, message)
  } finally {
    await stopAll()
  }
}

export const inFlight = {
  name: 'in flight',
  about: '40 slots of 10 ms that calls wait for',
  subjects: Object.keys(inFlightSubjects),
  /** Without those that watch the event loop, which is idle here, so that they do nothing. */
  quickSubjects: ['Sluice, headroom', 'Sluice, no priorities', 'under-pressure', 'no protection'],
  /** What subjects that watch the event loop aim at; the loop is idle here. */
  delays: [50],
  settleS: 2,
  seconds: 5,
  quick: { startS: 1, settleS: 1, seconds: 2 },
  targets: { critical: 0.999, goodput: 0.95 },
  run: (name, profile, delayMs) => inProcess({ name, profile, delayMs }),
}

export const loop = {
  name: 'loop',
  about: `an Express handler that computes for ${WORK_MS} ms`,
  subjects: ['Sluice', 'under-pressure', 'overload-protection', 'toobusy-js', 'no protection'],
  /** Peers get the one of these with which they serve most at three times the capacity. */
  delays: [20, 50, 100],
  /** The controller needs ln 6 / 0.22 s for the largest step, and as long to come back to it. */
  settleS: 20,
  seconds: 15,
  quick: { startS: 1, settleS: 11, seconds: 3 },
  targets: { critical: 0.99, goodput: 0.85 },
  run: async (name, profile, delayMs) => {
    const args = [name, String(rounds()), String(delayMs)]
    const { urls } = await startServer('subject', '../shedding/loop-server.mjs', { args })
    try {
      return await ask(startLoad('../shedding/loop-load.mjs'), { url: urls.url, profile })
    } finally {
      await stopAll()
    }
  },
}

let known
/** How often the handler hashes: the same for all subjects of a run. */
function rounds() {
  known ??= findRounds()
  return known
}

function findRounds() {
  const TRIED = 200_000
  const best = Array.from({ length: 5 }, () => {
    const hash = createHash('sha256')
    const started = performance.now()
    for (let i = 0; i < TRIED; i++) hash.update('what a handler computes')
    hash.digest('hex')
    return performance.now() - started
  })
  return Math.round((TRIED * WORK_MS) / Math.min(...best))
}
