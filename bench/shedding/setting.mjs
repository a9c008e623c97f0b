/** What all subjects of `shedding` have in common: the calls, the priorities and the profiles. */

/** The share of each priority in the calls, the most important first. */
export const MIX = { critical: 0.1, writes: 0.2, reads: 0.5, test: 0.2 }
export const PRIORITIES = Object.keys(MIX)
/** A call that has no answer by then is given up: what is done for it later is wasted. */
export const PATIENCE_MS = 1000
export const USERS = 1000

/** The priorities of ten calls, in an order that spreads each of them. */
const PATTERN = [
  'reads',
  'writes',
  'reads',
  'test',
  'reads',
  'critical',
  'reads',
  'writes',
  'reads',
  'test',
]

/** The nth call of a run; a random user of many. */
export function callOf(n) {
  const priority = PATTERN[n % PATTERN.length]
  return { priority, user: `u${Math.floor(Math.random() * USERS)}` }
}

/** Rules for both halves: calls are classified by their path. */
export const CLASSIFIED = {
  priorities: PRIORITIES,
  classify: PRIORITIES.slice(0, -1).map((name) => ({ match: { path: `/${name}` }, as: name })),
}

/**
 * A profile is a list of phases: so many seconds at so many times the capacity, from `x` to `to`.
 * Only measured phases count.
 */
const START = { seconds: 3, x: 0.5 }

export function stepTo(x, { startS = START.seconds, settleS, seconds }) {
  const start = { ...START, seconds: startS }
  return [start, { seconds: settleS, x }, { seconds, x, isMeasured: true }]
}

/** Up to three times capacity and back at once, again and again. */
export function sawtooth(teeth, seconds) {
  const tooth = { seconds, x: 0.5, to: 3, isMeasured: true }
  return [START, ...Array.from({ length: teeth }, () => tooth)]
}

/** Twice the capacity for long, then half of it until nothing is shed any more. */
export function overloadAndBack(seconds, backS) {
  return [
    START,
    { seconds: 30, x: 2 },
    { seconds, x: 2, isMeasured: true },
    { seconds: backS, x: 0.5, isBack: true },
  ]
}

/** When each call of a profile is due: `{ atMs, phase }`, at random within equal slots. */
export function* dueTimes(profile, capacity) {
  let startMs = 0
  for (const [phase, { seconds, x, to = x }] of profile.entries()) {
    let sent = 0
    for (let at = 0; at < seconds; ) {
      const rate = capacity * (x + ((to - x) * at) / seconds)
      yield { atMs: startMs + (at + Math.random() / rate) * 1000, phase }
      at += 1 / rate
      sent += 1
    }
    if (sent === 0) throw new Error('a phase without calls')
    startMs += seconds * 1000
  }
}
