/** The results as tables: the same ones for the terminal and for the page. */
import { TARGETS } from './hot-key.mjs'

const count = (number) => Math.round(number).toLocaleString('en-US')
const percent = (share) => `${(share * 100).toFixed(1)} %`
const perDecision = (calls) => (calls < 0.1 ? calls.toFixed(4) : calls.toFixed(2))
const times = (load) => `${load} x`
const beside = (measured, bound) => `${measured} of ${bound}`

/** Distinct values in order of appearance. */
const distinct = (rows, field) => [...new Set(rows.map((row) => row[field]))]

/** Every table by its name: a title, a header, and rows of text. */
export function tablesOf({ loads, textbook, clocks, hotKey }) {
  const leased = loads.filter(({ coordination }) => coordination === 'leased')
  const local = loads.filter(({ coordination }) => coordination === 'local')
  return {
    'leased-excess': byLoad(leased, {
      title: 'leased: units beyond the algorithm, measured of the bound, by what was offered',
      cell: ({ excess, excessBound }) => beside(count(excess), count(excessBound)),
    }),
    'leased-stranded': byLoad(leased, {
      title: 'leased: share of the limit held unspent, measured of the bound',
      cell: ({ strandedShare, strandedBound }) =>
        beside((strandedShare * 100).toFixed(1), percent(strandedBound)),
    }),
    'leased-refused': byLoad(leased, {
      title: 'leased: room that an exact limiter would have had at a refusal, at most',
      cell: ({ roomAtRefusal, strandedBound }) =>
        beside((roomAtRefusal * 100).toFixed(1), percent(strandedBound)),
    }),
    'leased-fewer': byLoad(leased, {
      title: 'leased: fewer calls admitted than by an exact limiter',
      cell: ({ fewerThanExact }) => percent(fewerThanExact),
    }),
    'leased-calls': byLoad(leased, {
      title: 'leased: store calls per decision',
      cell: ({ storeCalls }) => perDecision(storeCalls),
    }),
    'local-excess': byLoad(local, {
      title: 'local: units beyond the algorithm, measured of the bound, by what was offered',
      cell: ({ excess, excessBound }) => beside(count(excess), count(excessBound)),
    }),
    'local-calls': byLoad(local, {
      title: 'local: store calls per decision',
      cell: ({ storeCalls }) => perDecision(storeCalls),
    }),
    textbook: textbookTable(textbook),
    clocks: clocksTable(clocks),
    'hot-key': hotKeyTable(hotKey),
    'hot-key-paced': pacedTable(hotKey),
  }
}

/** A row for each algorithm and size of fleet, a column for each load. */
function byLoad(rows, { title, cell }) {
  const loads = distinct(rows, 'load')
  const body = distinct(rows, 'algorithm').flatMap((algorithm) =>
    distinct(rows, 'nodes').map((nodes) => [
      algorithm,
      String(nodes),
      ...loads.map((load) => {
        const found = rows.find(
          (row) => row.algorithm === algorithm && row.nodes === nodes && row.load === load,
        )
        return found === undefined ? '' : cell(found)
      }),
    ]),
  )
  return { title, header: ['algorithm', 'nodes', ...loads.map(times)], rows: body }
}

function textbookTable({ nodes, offered, admitted, max, excess, excessBound, lastMs }) {
  return {
    title: 'the textbook: 10 nodes, local, merged every 100 ms, 100 a minute, 1,000 calls a second',
    header: ['nodes', 'offered', 'admitted', 'limit', 'extra', 'bound', 'last admission after'],
    rows: [
      [
        String(nodes),
        ...[offered, admitted, max, excess, excessBound].map(count),
        `${count(lastMs)} ms`,
      ],
    ],
  }
}

function clocksTable(rows) {
  return {
    title: 'bursts at window edges, clocks of the nodes apart: units beyond the algorithm',
    header: ['clocks apart', 'coordination', 'algorithm', 'offered', 'admitted', 'beyond', 'bound'],
    rows: rows.map((row) => [
      `${count(row.apartMs)} ms`,
      row.coordination,
      row.algorithm,
      ...[row.offered, row.admitted, row.excess, row.excessBound].map(count),
    ]),
  }
}

function hotKeyTable({ nodes, large }) {
  return {
    title: `one caller, ${nodes} processes, a limit that no caller reaches, as fast as they can`,
    header: [
      '',
      'waiting',
      'decisions/s',
      'of exact',
      'store calls/decision',
      'client us',
      'Redis us',
    ],
    rows: large.map((row) => [
      row.coordination,
      String(row.waiting),
      count(row.rate),
      row.ratio.toFixed(1),
      perDecision(row.storeCalls),
      row.clientUs.toFixed(2),
      row.redisUs.toFixed(3),
    ]),
  }
}

function pacedTable({ nodes, crowd, calm, limits }) {
  return {
    title: `one caller, ${nodes} processes, ${count(limits.crowd)} a second`,
    header: ['', 'calls/s', 'admitted/s', 'store calls/decision', 'Redis us'],
    rows: [...crowd, ...calm].map((row) => [
      row.coordination,
      count(row.calls),
      count(row.admitted),
      perDecision(row.storeCalls),
      row.redisUs.toFixed(3),
    ]),
  }
}

/** Targets for hot keys. A missed target fails nothing. */
export function targetsTable({ large, crowd, calm }) {
  // The last has the most concurrent calls, where `exact` does best.
  const leased = (rows) => rows.findLast(({ coordination }) => coordination === 'leased')
  const verdict = (isReached) => (isReached ? 'reached' : 'NOT reached')
  const { ratio } = leased(large)
  const calls = [
    ['as fast as they can', large],
    [`${count(leased(crowd).offered)} calls/s`, crowd],
    [`${count(leased(calm).offered)} calls/s`, calm],
  ]
  return {
    title: 'targets of leased',
    header: ['', 'found', 'target', ''],
    rows: [
      [
        'decisions/s, of exact',
        ratio.toFixed(1),
        `at least ${TARGETS.ratio}`,
        verdict(ratio >= TARGETS.ratio),
      ],
      ...calls.map(([name, rows]) => {
        const { storeCalls } = leased(rows)
        return [
          `store calls per decision, ${name}`,
          storeCalls.toFixed(4),
          `at most ${TARGETS.storeCalls}`,
          verdict(storeCalls <= TARGETS.storeCalls),
        ]
      }),
    ],
  }
}
