/** The targets, and whether they were reached. A missed target fails nothing. */
import { printTable } from '../report.mjs'
import { medianOf, ratioOf } from './measure.mjs'
import { PEER, PEER_AUTO, SLUICE } from './subjects.mjs'
import { atLeast, atMost, verdict } from './verdicts.mjs'

/** `resultsOf(rules, waiting)`: the results of uniform callers by the name of the subject. */
export function printTargets({ resultsOf, paced, refused }) {
  const ratios = [PEER, PEER_AUTO].flatMap((peer) => [
    { peer, rules: 1, waiting: 256, figure: 'rate', ...atLeast(2) },
    { peer, rules: 3, waiting: 256, figure: 'rate', ...atLeast(3) },
    { peer, rules: 1, waiting: 256, figure: 'redisUs', ...atMost(0.5) },
    { peer, rules: 3, waiting: 256, figure: 'redisUs', ...atMost(0.5) },
    { peer, rules: 1, waiting: 256, figure: 'clientUs', ...atMost(0.333) },
    { peer, rules: 3, waiting: 256, figure: 'clientUs', ...atMost(0.333) },
    { peer, rules: 1, waiting: 1, figure: 'rate', ...atLeast(0.9) },
  ])
  for (const peer of [PEER, PEER_AUTO]) {
    printTable(
      [`Sluice of ${peer}`, 'median', 'lowest', 'highest', 'target', ''],
      ratios.filter((ratio) => ratio.peer === peer).flatMap((ratio) => rowOf(ratio, resultsOf)),
    )
  }
  printFigures(paced, refused)
}

const FIGURES = { rate: 'decisions/s', redisUs: 'Redis CPU', clientUs: 'client CPU' }

function rowOf({ peer, rules, waiting, figure, target, isReached }, resultsOf) {
  const results = resultsOf(rules, waiting)
  const base = results?.get(peer)
  // With one caller there is no pipelining, so there is only one configuration.
  if (base === undefined) return []
  const { median, least, most } = ratioOf(results.get(SLUICE), base, figure)
  return [
    [
      `${FIGURES[figure]}, ${rules === 1 ? 'one rule' : 'three rules'}, ${waiting} waiting`,
      ...[median, least, most].map((ratio) => ratio.toFixed(2)),
      target,
      verdict(isReached(median)),
    ],
  ]
}

function printFigures(paced, refused) {
  const { p50, p99, share } = paced.get(SLUICE)
  const refusals = Math.round(medianOf(refused.get(SLUICE), 'rate'))
  const rows = [
    { what: 'p50 at half the peak rate, ms', found: p50, shown: p50.toFixed(2), ...atMost(2) },
    { what: 'p99 at half the peak rate, ms', found: p99, shown: p99.toFixed(2), ...atMost(5) },
    {
      what: 'answered by the store, %',
      found: share * 100,
      shown: (share * 100).toFixed(4),
      ...atLeast(99.99),
    },
    { what: 'refusals/s of one process', found: refusals, shown: refusals, ...atLeast(1_000_000) },
  ]
  printTable(
    ['Sluice', 'found', 'target', ''],
    rows.map((row) => [row.what, row.shown, row.target, verdict(row.isReached(row.found))]),
  )
}
