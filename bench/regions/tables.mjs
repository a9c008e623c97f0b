/** The results as tables, the bounds that were not kept, and the targets that were missed. */
import { BUCKET_BURST, BUCKET_RATE } from './cells.mjs'
import { SETTINGS, SUBJECTS } from './costs.mjs'
import { PEER, SLUICE } from './subjects.mjs'

const HALF_SYNC_MS = 50
const SEEN_MS_MAX = 10
const LATENCY_MAX = 1.05
const NODE_US_MAX = 2
const REDIS_US_MAX = 5
const BYTES_MAX = 40
const HEAL_MS_MAX = 2000
const PAID_BACK = 1.02

const whole = (number) => Math.round(number).toLocaleString('en')
const ms = (number) => number.toFixed(number < 10 ? 2 : 0)
const plannedMs = (delayMs) => HALF_SYNC_MS + delayMs

export function tablesOf({ cells, costs, partition, refusal }) {
  return [
    cellsTable(cells.rows, refusal),
    paidBackTable(cells.paidBack),
    seenTable(costs),
    latencyTable(costs),
    unitTable(costs),
    grownTable(costs),
    healTable(partition),
  ]
}

function cellsTable(rows, refusal) {
  const found = rows.map((row) => [
    row.what,
    `${row.delayMs} ms`,
    `${whole(row.perSecond)}/s`,
    whole(row.excess),
    whole(row.formula),
    `${whole(row.bound)} (${whole(row.knownMs)} ms)`,
    row.peer === undefined ? '' : peerCell(row.peer),
  ])
  const small = [
    '1,000/s, bucket of 1',
    '',
    '',
    refusal === undefined ? 'taken' : 'refused at load',
  ]
  return {
    title: 'Admitted beyond the limit',
    header: ['limit', 'one way', 'offered', 'beyond', 'formula', 'bound (slowest unit)', PEER],
    rows: [...found, [...small, '', '', '']],
  }
}

function peerCell({ excess, unsent, offered }) {
  const share = (100 * unsent) / (unsent + offered)
  return unsent === 0 ? whole(excess) : `${whole(excess)}; ${share.toFixed(0)} % not sent`
}

function paidBackTable(paid) {
  return {
    title: 'A bucket at twice its rate',
    header: ['seconds', 'admitted', 'burst + rate * t', 'at most', 'of it'],
    rows: [
      [
        paid.tookSeconds.toFixed(1),
        whole(paid.admitted),
        whole(exactOf(paid)),
        whole(mostOf(paid)),
        `${((100 * paid.admitted) / exactOf(paid)).toFixed(2)} %`,
      ],
    ],
  }
}

const exactOf = ({ tookSeconds }) => BUCKET_BURST + BUCKET_RATE * tookSeconds
const mostOf = ({ tookSeconds }) => BUCKET_BURST + PAID_BACK * BUCKET_RATE * tookSeconds

function seenTable(costs) {
  const delays = [...costs.get(SLUICE).seen.keys()]
  return {
    title: 'Seen elsewhere, p99 in ms',
    header: ['', ...delays.map((delayMs) => `${delayMs} ms one way`)],
    rows: [
      ['50 ms + one way', ...delays.map((delayMs) => ms(plannedMs(delayMs)))],
      ...SUBJECTS.map((name) => [
        name,
        ...delays.map((each) => ms(costs.get(name).seen.get(each))),
      ]),
    ],
  }
}

function latencyTable(costs) {
  const texts = { none: 'one region', on: 'links on', 'black-holed': 'links black-holed' }
  return {
    title: 'Latency of a decision, ms',
    header: ['', ...SETTINGS.flatMap((each) => [`${texts[each]}, p50`, 'p99'])],
    rows: SUBJECTS.map((subject) => {
      const { latency } = costs.get(subject)
      const cells = SETTINGS.flatMap((each) => [latency.get(each).p50, latency.get(each).p99])
      return [subject, ...cells.map((value) => value.toFixed(2))]
    }),
  }
}

function unitTable(costs) {
  return {
    title: 'What an admitted unit costs for each other region',
    header: ['', 'node CPU, us', 'its Redis CPU, us', 'bytes sent'],
    rows: SUBJECTS.map((subject) => {
      const { nodeUs, redisUs, bytes } = costs.get(subject).unit
      return [subject, nodeUs.toFixed(1), redisUs.toFixed(1), bytes.toFixed(0)]
    }),
  }
}

function grownTable(costs) {
  const counts = [...costs.get(SLUICE).grown.keys()]
  return {
    title: 'One more call of one caller: its time, and the bytes that another region answers',
    header: ['', ...counts.map((count) => `after ${whole(count)} calls`)],
    rows: SUBJECTS.map((subject) => [
      subject,
      ...counts.map((count) => {
        const { callMs, replyBytes } = costs.get(subject).grown.get(count)
        return `${callMs.toFixed(2)} ms, ${whole(replyBytes)} B`
      }),
    ]),
  }
}

function healTable({ seconds, units, healMs, twice, missing, unexplained, slowestMs, posture }) {
  return {
    title: `A region cut off for ${seconds} s under load`,
    header: ['units', 'healed in', 'twice', 'unknown', 'lost', 'slowest decision', 'by posture'],
    rows: [
      [
        whole(units),
        `${whole(healMs)} ms`,
        whole(twice),
        whole(missing - unexplained),
        whole(unexplained),
        `${ms(slowestMs)} ms`,
        whole(posture),
      ],
    ],
  }
}

/** What was promised whatever the machine does. */
export function brokenBounds({ cells, partition, refusal }) {
  const { rows, paidBack } = cells
  const beyond = [...rows, paidBack].filter(({ isWithin }) => !isWithin)
  return [
    ...beyond.map(
      ({ what, delayMs, excess, bound }) =>
        `${what}, ${delayMs} ms: ${whole(excess)} beyond the limit; bound: ${whole(bound)}`,
    ),
    paidBack.admitted > mostOf(paidBack) &&
      `a bucket at twice its rate: ${whole(paidBack.admitted)}; bound: ${whole(mostOf(paidBack))}`,
    partition.twice > 0 && `${whole(partition.twice)} units were counted twice`,
    partition.unexplained > 0 && `${whole(partition.unexplained)} units were lost without a count`,
    refusal === undefined && 'a bucket of 1 at 1,000/s was not refused at load',
  ].filter((each) => each !== false)
}

/** Targets are times on this machine: missed ones are reported only. */
export function targetsOf({ costs, partition }) {
  const { seen, latency, unit } = costs.get(SLUICE)
  const slowest = Math.max(...[...seen].map(([delayMs, found]) => found - plannedMs(delayMs)))
  const ratio = (p) => {
    const values = SETTINGS.map((setting) => latency.get(setting)[p])
    return Math.max(...values) / Math.min(...values)
  }
  const rows = [
    ['seen elsewhere, p99 beyond 50 ms + one way, ms', slowest, SEEN_MS_MAX],
    ['p50 of a decision, slowest / fastest of the three', ratio('p50'), LATENCY_MAX],
    ['p99 of a decision, slowest / fastest of the three', ratio('p99'), LATENCY_MAX],
    ['node CPU of a unit and link, us', unit.nodeUs, NODE_US_MAX],
    ['Redis CPU of a unit and link, us', unit.redisUs, REDIS_US_MAX],
    ['bytes of a unit and link', unit.bytes, BYTES_MAX],
    ['healed in, ms', partition.healMs, HEAL_MS_MAX],
  ]
  return {
    title: 'Targets',
    header: ['', 'found', 'at most', 'reached'],
    rows: rows.map(([what, found, most]) => [
      what,
      found.toFixed(2),
      String(most),
      found <= most ? 'yes' : 'no',
    ]),
  }
}
