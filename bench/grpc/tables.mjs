/** The tables of the benchmark, and its targets. */
import { atLeast, verdict } from '../redis/verdicts.mjs'
import { GRPC_JS, OWN } from './subjects.mjs'

const whole = (number) => Math.round(number).toLocaleString('en')
const spread = ({ median, least, most }) =>
  `${median.toFixed(1)} (${least.toFixed(1)} to ${most.toFixed(1)})`

const GROUPS = [
  { title: 'A constant answer', isIn: ({ kind }) => kind === 'constant' },
  {
    title: 'Admitted, in memory',
    isIn: ({ kind, store }) => kind === 'admitted' && store === 'memory',
  },
  {
    title: 'Admitted, on Redis',
    isIn: ({ kind, store }) => kind === 'admitted' && store === 'Redis',
  },
  {
    title: 'Refused, in memory',
    isIn: ({ kind, store }) => kind === 'refused' && store === 'memory',
  },
  {
    title: 'Refused, on Redis',
    isIn: ({ kind, store }) => kind === 'refused' && store === 'Redis',
  },
]

export function tablesOf(results, pacedPerSecond) {
  return GROUPS.map(({ title, isIn }) => {
    const found = results.filter(isIn)
    const hasRedis = found.some(({ redisUs }) => redisUs !== undefined)
    return {
      title,
      header: [
        '',
        'calls/s',
        'CPU, us/call',
        'calls per CPU s',
        ...(hasRedis ? ['Redis CPU, us/call'] : []),
        'p99, ms',
        `p99 at ${whole(pacedPerSecond)}/s, ms`,
      ],
      rows: found.map(({ name, perSecond, cpuUs, redisUs, p99Ms, pacedP99Ms }) => [
        name,
        whole(perSecond.median),
        spread(cpuUs),
        whole(1e6 / cpuUs.median),
        ...(hasRedis ? [redisUs.median.toFixed(1)] : []),
        p99Ms.median.toFixed(1),
        pacedP99Ms.median.toFixed(1),
      ]),
    }
  })
}

/** Of medians. A missed target fails nothing. */
export function targetsOf(results) {
  const find = (name, store) =>
    results.find((one) => one.name === name && one.store === store && one.kind === 'admitted')
  const rows = []
  const compare = (other, store, wanted) => {
    const [own, base] = [find(OWN, store), find(other, store)]
    if (own === undefined || base === undefined) return
    const ratio = base.cpuUs.median / own.cpuUs.median
    const { target, isReached } = wanted
    const what = `${OWN} / ${other}, ${store === 'memory' ? 'in memory' : 'on Redis'}`
    rows.push([what, ratio.toFixed(1), target, verdict(isReached(ratio))])
  }
  compare(GRPC_JS, 'memory', atLeast(10))
  compare(GRPC_JS, 'Redis', atLeast(5))
  compare('gubernator', 'memory', atLeast(1))
  compare('limitador', 'memory', atLeast(1))
  compare('limitador', 'Redis', atLeast(1))
  compare('envoyproxy/ratelimit', 'Redis', atLeast(1))
  return { header: ['Calls per second of CPU, admitted', 'found', 'target', ''], rows }
}
