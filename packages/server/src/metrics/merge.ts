/** The metrics of several processes as those of one. */
import { HISTOGRAM_SUFFIX } from './histogram.js'

/** What is the same in all of them, or worst where it is worst. */
const HIGHEST: ReadonlySet<string> = new Set([
  'sluice_breaker_open',
  'sluice_counters',
  'sluice_fleet_size',
  'sluice_rules_age_seconds',
  'sluice_rules_version',
  'sluice_store_memory_bytes',
])
/** Where 0 is best, on either side of it. */
const WIDEST: ReadonlySet<string> = new Set(['sluice_clock_offset_seconds'])

interface Merged {
  readonly head: string[]
  readonly series: Map<string, number>
  /** Its buckets stand in the order of their bounds, which is not that of their texts. */
  isHistogram: boolean
}

/** Texts as the registry writes them; an empty one counts for nothing. */
export function mergeMetrics(texts: readonly string[]): string {
  const metrics = new Map<string, Merged>()
  for (const text of texts) {
    for (const line of text.split('\n')) {
      if (line.startsWith('#')) addHead(metrics, line)
      else if (line !== '') addSample(metrics, line)
    }
  }
  const lines = [...metrics.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, { head, series, isHistogram }]) => {
      const samples = [...series].map(([name, value]) => `${name} ${value}`)
      return [...head, ...(isHistogram ? samples : samples.sort())]
    })
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`
}

function addHead(metrics: Map<string, Merged>, line: string): void {
  const [, , name = '', type] = line.split(' ')
  const metric = metricOf(metrics, name)
  if (!metric.head.includes(line)) metric.head.push(line)
  if (line.startsWith('# TYPE') && type === 'histogram') metric.isHistogram = true
}

function addSample(metrics: Map<string, Merged>, line: string): void {
  const space = line.lastIndexOf(' ')
  const name = /^[^{ ]+/.exec(line)?.[0] ?? ''
  const histogram = metrics.get(name.replace(HISTOGRAM_SUFFIX, ''))
  const { series } = histogram?.isHistogram === true ? histogram : metricOf(metrics, name)
  const key = line.slice(0, space)
  const value = Number(line.slice(space + 1))
  const before = series.get(key)
  series.set(key, before === undefined ? value : together(name, before, value))
}

function together(name: string, one: number, other: number): number {
  if (HIGHEST.has(name)) return Math.max(one, other)
  if (WIDEST.has(name)) return Math.abs(one) > Math.abs(other) ? one : other
  return one + other
}

function metricOf(metrics: Map<string, Merged>, name: string): Merged {
  const known = metrics.get(name)
  if (known !== undefined) return known
  const made: Merged = { head: [], series: new Map(), isHistogram: false }
  metrics.set(name, made)
  return made
}
