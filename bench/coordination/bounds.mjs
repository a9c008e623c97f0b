/** The bound of each coordination mode, and whether a measured fleet stayed within it. */
import { excessOf, besideExact, mostWithin } from './excess.mjs'
import { MAX_STRANDED, SYNC_EVERY_MS } from './fleet.mjs'

/** Round trips that a merge takes: a node reports, and another reads. */
const MERGE_TRIPS = 2

/** Units that one node may hold: all together hold no more than `maxStranded` of the limit. */
export function leaseOf({ max }, nodes) {
  return Math.floor((MAX_STRANDED * max) / nodes)
}

/** The largest admissible excess over what the algorithm itself allows. */
function excessBound({ coordination, ...limit }, nodes, { asked, roundTripMs, lateMs }) {
  if (coordination === 'leased') {
    return limit.algorithm === 'fixed-window' ? 0 : nodes * leaseOf(limit, nodes)
  }
  // The longest measured timers and round trips, not the nominal ones; and the calls in the busiest
  // interval of that length, because a busy machine bunches calls.
  const mergedMs = SYNC_EVERY_MS + lateMs + MERGE_TRIPS * roundTripMs
  const offered = mostWithin(asked, mergedMs * 1000)
  return Math.min((nodes - 1) * limit.max, offered)
}

/**
 * The bound of `local` is for one crossing of the limit, so for one window. A bucket owes the
 * excess; a sliding counter does not, so it may exceed again in the next window.
 */
function spanOf({ coordination, algorithm, windowMs }) {
  const isPerWindow = coordination === 'local' && algorithm === 'sliding-window-counter'
  return isPerWindow ? windowMs * 1000 : Infinity
}

/**
 * Undefined if there is no bound. When bursts cross window edges, many units are on their way back.
 */
function strandedBound({ coordination, isAimed, ...limit }, nodes) {
  if (isAimed) return undefined
  return coordination === 'leased' ? (nodes * leaseOf(limit, nodes)) / limit.max : 0
}

/**
 * Details for a window with too many admissions: those requested in a later window than the one in
 * which the store granted them, and those whose window ended between request and answer.
 */
function edgesOf({ windowMs }, calls) {
  const windowOf = (time) => Math.floor(time / (windowMs * 1000))
  const admitted = calls.filter((call) => call.admitted)
  return {
    afterTheirs: admitted.filter((call) => windowOf(call.granted) < windowOf(call.from)).length,
    across: admitted.filter((call) => windowOf(call.from) < windowOf(call.until)).length,
  }
}

/** One row of figures, and its violations. */
export function judge(cell, nodes, played) {
  const { max } = cell
  const { calls, admitted, scripts, byPosture, leastFleet, stats } = played
  const exact = besideExact(cell, calls)
  const row = {
    ...cell,
    nodes,
    offered: calls.length,
    admitted: admitted.length,
    byPosture,
    leastFleet,
    roundTripMs: round(played.roundTripMs),
    lateMs: round(played.lateMs),
    excess: round(excessOf(cell, admitted, spanOf(cell))),
    excessBound: excessBound(cell, nodes, played),
    strandedShare: mostHeld(cell, played) / max,
    strandedBound: strandedBound(cell, nodes),
    fewerThanExact: Math.max(0, 1 - admitted.length / exact.admissible),
    roomAtRefusal: exact.room / max,
    storeCalls: scripts / calls.length,
    edges: edgesOf(cell, calls),
    stats,
  }
  return { ...row, problems: problemsOf(row) }
}

/**
 * The maximum at any moment. Units of a window that is over do not count: they are being given back
 * for a round trip after its edge, or as long as timers are late.
 */
function mostHeld({ algorithm, windowMs }, { held, roundTripMs, lateMs }) {
  const isWindow = algorithm !== 'token-bucket'
  const sinceEdgeMs = (time) => (time / 1000) % windowMs
  const counts = held.filter(({ time }) => !isWindow || sinceEdgeMs(time) > roundTripMs + lateMs)
  return Math.max(0, ...counts.map((look) => look.held))
}

const round = (number) => Math.round(number * 10) / 10

function problemsOf({ stats, excess, strandedShare, ...row }) {
  const { drawn = 0, spent = 0 } = stats
  const { nodes, leastFleet, byPosture } = row
  return [
    leastFleet < nodes && `heartbeats were late: a node knew of ${leastFleet} of ${nodes} nodes`,
    byPosture > 0 && `the store was silent for ${byPosture} calls`,
    excess > row.excessBound &&
      `${excess} admitted beyond the limit; the bound is ${row.excessBound}`,
    strandedShare > row.strandedBound &&
      `${strandedShare} of the limit held; the bound is ${row.strandedBound}`,
    spent > drawn && `${spent} units of leases spent, but only ${drawn} drawn`,
  ].filter((problem) => problem !== false)
}
