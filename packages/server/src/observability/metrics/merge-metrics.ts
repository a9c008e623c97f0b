/** Merges the metrics of several worker processes into those of one node. */
import { HISTOGRAM_SUFFIX } from './histogram.js'
import { MERGE_LINE, type MergeMethod } from './registry.js'

const MERGE: Readonly<Record<MergeMethod, (one: number, other: number) => number>> = {
  sum: (one, other) => one + other,
  max: Math.max,
  min: Math.min,
  furthest: (one, other) => (Math.abs(one) > Math.abs(other) ? one : other),
}

interface MergedMetric {
  readonly head: string[]
  readonly series: Map<string, number>
  isHistogram: boolean
  merge: MergeMethod
}

/**
 * Takes texts as `mergeableText` writes them: each metric's head precedes its samples. Returns the
 * text for a scrape. A worker that did not answer is an empty text.
 */
export function mergeMetrics(texts: readonly string[]): string {
  const metrics = new Map<string, MergedMetric>()
  for (const text of texts) {
    for (const line of text.split('\n')) {
      if (line.startsWith(MERGE_LINE)) setMethod(metrics, line)
      else if (line.startsWith('#')) addHead(metrics, line)
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

function setMethod(metrics: Map<string, MergedMetric>, line: string): void {
  const [name = '', method = ''] = line.slice(MERGE_LINE.length).split(' ')
  if (isMethod(method)) metricOf(metrics, name).merge = method
}

function isMethod(text: string): text is MergeMethod {
  return Object.hasOwn(MERGE, text)
}

function addSample(metrics: Map<string, MergedMetric>, line: string): void {
  const space = line.lastIndexOf(' ')
  const name = /^[^{ ]+/.exec(line)?.[0] ?? ''
  const histogram = metrics.get(name.replace(HISTOGRAM_SUFFIX, ''))
  const { series, merge } = histogram?.isHistogram === true ? histogram : metricOf(metrics, name)
  const key = line.slice(0, space)
  const value = Number(line.slice(space + 1))
  const previous = series.get(key)
  series.set(key, previous === undefined ? value : MERGE[merge](previous, value))
}

function sampleLines(series: ReadonlyMap<string, number>): string[] {
  return [...series].map(([name, value]) => `${name} ${value}`)
}

/** `le` is the last label of a bucket, and its value needs no escaping. */
const BUCKET = /^[^{]+_bucket\{(?:(.*),)?le="([^"\\]+)"\}$/s
const SUM_OR_COUNT = /^[^{]+_(sum|count)(?:\{(.*)\})?$/s

interface HistogramSample {
  readonly line: string
  /** 0 for buckets, 1 for the sum, 2 for the count: the order of the format. */
  readonly part: number
  /** The upper bound of a bucket; 0 for the other two. */
  readonly bound: number
}

/** Sorts series by labels and buckets by bound: as text, "10" would sort before "2". */
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
  const made: MergedMetric = { head: [], series: new Map(), isHistogram: false, merge: 'sum' }
  metrics.set(name, made)
  return made
}
