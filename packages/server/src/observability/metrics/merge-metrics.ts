/** The metrics of several processes as those of one. */
import { HISTOGRAM_SUFFIX } from './histogram.js'

/** What is the same in all of them, or worst where it is worst. */
const HIGHEST: ReadonlySet<string> = new Set([
  'sluice_alert_active',
  'sluice_breaker_open',
  // The same caller may have come to each of them, so that a sum would count it several times.
  'sluice_callers',
  'sluice_counters',
  'sluice_fleet_size',
  'sluice_rules_age_seconds',
  'sluice_rules_read_only',
  'sluice_rules_version',
  'sluice_store_evicted_total',
  'sluice_store_memory_bytes',
  'sluice_store_memory_max_bytes',
])
/** Where the lowest is the worst. */
const LOWEST: ReadonlySet<string> = new Set(['sluice_store_up'])
/** Where 0 is best, on either side of it. */
const WIDEST: ReadonlySet<string> = new Set(['sluice_clock_offset_seconds'])

interface MergedMetric {
  readonly head: string[]
  readonly series: Map<string, number>
  isHistogram: boolean
}

/** Texts as the registry writes them; an empty one counts for nothing. */
export function mergeMetrics(texts: readonly string[]): string {
  const metrics = new Map<string, MergedMetric>()
  for (const text of texts) {
    for (const line of text.split('\n')) {
      if (line.startsWith('#')) addHead(metrics, line)
      else if (line !== '') addSample(metrics, line)
    }
  }
  const lines = [...metrics.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, { head, series, isHistogram }]) => [
      ...head,
      ...(isHistogram ? histogramLines(series) : sampleLines(series).sort()),
    ])
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`
}

function addHead(metrics: Map<string, MergedMetric>, line: string): void {
  const [, , name = '', type] = line.split(' ')
  const metric = metricOf(metrics, name)
  if (!metric.head.includes(line)) metric.head.push(line)
  if (line.startsWith('# TYPE') && type === 'histogram') metric.isHistogram = true
}

function addSample(metrics: Map<string, MergedMetric>, line: string): void {
  const space = line.lastIndexOf(' ')
  const name = /^[^{ ]+/.exec(line)?.[0] ?? ''
  const histogram = metrics.get(name.replace(HISTOGRAM_SUFFIX, ''))
  const { series } = histogram?.isHistogram === true ? histogram : metricOf(metrics, name)
  const key = line.slice(0, space)
  const value = Number(line.slice(space + 1))
  const previous = series.get(key)
  series.set(key, previous === undefined ? value : combine(name, previous, value))
}

function combine(name: string, one: number, other: number): number {
  if (HIGHEST.has(name)) return Math.max(one, other)
  if (LOWEST.has(name)) return Math.min(one, other)
  if (WIDEST.has(name)) return Math.abs(one) > Math.abs(other) ? one : other
  return one + other
}

function sampleLines(series: ReadonlyMap<string, number>): string[] {
  return [...series].map(([name, value]) => `${name} ${value}`)
}

/** The bound is the last label of a bucket, and its value has nothing to escape. */
const BUCKET = /^[^{]+_bucket\{(?:(.*),)?le="([^"\\]+)"\}$/s
const SUM_OR_COUNT = /^[^{]+_(sum|count)(?:\{(.*)\})?$/s

interface HistogramSample {
  readonly line: string
  /** Buckets, then the sum, then the count. */
  readonly part: number
  /** Of a bucket. */
  readonly bound: number
}

/** Series by their labels; in each the buckets by their bounds, whose texts sort otherwise. */
function histogramLines(series: ReadonlyMap<string, number>): readonly string[] {
  const bySeries = new Map<string, HistogramSample[]>()
  for (const [key, value] of series) {
    const bucket = BUCKET.exec(key)
    const [, part, labels = bucket?.[1] ?? ''] = SUM_OR_COUNT.exec(key) ?? []
    const samples = bySeries.get(labels) ?? []
    bySeries.set(labels, samples)
    samples.push({
      line: `${key} ${value}`,
      part: bucket !== null ? 0 : part === 'sum' ? 1 : 2,
      bound: bucket?.[2] === '+Inf' ? Infinity : Number(bucket?.[2] ?? 0),
    })
  }
  return [...bySeries]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, samples]) => samples.sort(byPlace).map(({ line }) => line))
}

function byPlace(a: HistogramSample, b: HistogramSample): number {
  return a.part === b.part ? (a.bound < b.bound ? -1 : 1) : a.part - b.part
}

function metricOf(metrics: Map<string, MergedMetric>, name: string): MergedMetric {
  const known = metrics.get(name)
  if (known !== undefined) return known
  const made: MergedMetric = { head: [], series: new Map(), isHistogram: false }
  metrics.set(name, made)
  return made
}
