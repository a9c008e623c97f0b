/**
 * Metrics in the text format of Prometheus, version 0.0.4.
 *
 * A count is one addition on an object that was found before: whoever counts keeps the series it
 * got from `labels`. Everything else, the texts and their order, is made when somebody reads.
 */
import {
  HISTOGRAM_SUFFIX,
  HistogramSeries,
  type LabelledHistogram,
  type ReadableHistogram,
  requireBounds,
  requireNoBoundLabel,
} from './histogram.js'

export interface Series {
  inc(by?: number): void
}

export interface Counter {
  /** The series of these values, in the order of the label names; the same one each time. */
  labels(...values: readonly string[]): Series
}

/** What is read when the metrics are: one number, or one for each list of label values. */
type MetricValues = number | readonly (readonly [values: readonly string[], value: number])[]

export interface Registry {
  /** A count that is kept here. */
  counter(name: string, help: string, labelNames?: readonly string[]): Counter
  /** How often a number lay below each of some bounds, which go up. */
  histogram(name: string, help: string, bounds: readonly number[]): ReadableHistogram
  /** The same for each list of label values. */
  labelledHistogram(
    name: string,
    help: string,
    bounds: readonly number[],
    labelNames: readonly string[],
  ): LabelledHistogram
  /** A count that is kept elsewhere and read from there. */
  total(name: string, help: string, read: () => MetricValues, labelNames?: readonly string[]): void
  /** A number that goes up and down. */
  gauge(name: string, help: string, read: () => MetricValues, labelNames?: readonly string[]): void
  /** All of it, sorted by name and labels. */
  text(): string
}

export const METRICS_CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

const METRIC_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const LABEL_NAME = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/
const NAME_LENGTH_MAX = 128
/** More label values than this come from callers, not from configuration. */
const SERIES_MAX = 400_000

export function createRegistry(): Registry {
  const metrics = new Map<string, Metric>()
  function register<M extends Metric>(metric: M): M {
    const { name, labelNames } = metric
    requireNames(name, labelNames)
    if (metrics.has(name)) throw new Error(`metric ${name}: registered twice`)
    metrics.set(name, metric)
    return metric
  }
  function read(type: 'counter' | 'gauge', metric: MetricInfo, reading: () => MetricValues): void {
    if (type === 'counter') requireTotal(metric.name)
    register({ ...metric, type, lines: () => linesOf(metric, reading) })
  }
  return {
    counter(name, help, labelNames = []) {
      requireTotal(name)
      return register(new RegisteredCounter({ name, help, labelNames }))
    },
    histogram: (name, help, bounds) =>
      register(new RegisteredHistogram({ name, help, labelNames: [] }, bounds)).labels(),
    labelledHistogram: (name, help, bounds, labelNames) =>
      register(new RegisteredHistogram({ name, help, labelNames }, bounds)),
    total: (name, help, reading, labelNames = []) =>
      read('counter', { name, help, labelNames }, reading),
    gauge: (name, help, reading, labelNames = []) =>
      read('gauge', { name, help, labelNames }, reading),
    text: () => [...metrics.values()].sort(byName).map(textOf).join(''),
  }
}

interface MetricInfo {
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
}

interface Metric extends MetricInfo {
  readonly type: 'counter' | 'gauge' | 'histogram'
  lines(): readonly string[]
}

class CounterSeries implements Series {
  value = 0

  inc(by = 1): void {
    this.value += by
  }
}

/** The series of one metric. */
class SeriesMap<S> {
  /** By labels, or name and labels, as they are written. */
  readonly #series = new Map<string, S>()
  readonly #name: string
  readonly #make: () => S
  /** Undefined when there are new ones. */
  #sorted: readonly (readonly [key: string, series: S])[] | undefined

  constructor(name: string, make: () => S) {
    this.#name = name
    this.#make = make
  }

  get(key: string): S {
    const known = this.#series.get(key)
    if (known !== undefined) return known
    if (this.#series.size >= SERIES_MAX) {
      throw new Error(`metric ${this.#name}: more than ${SERIES_MAX} series`)
    }
    const made = this.#make()
    this.#series.set(key, made)
    this.#sorted = undefined
    return made
  }

  sorted(): readonly (readonly [key: string, series: S])[] {
    this.#sorted ??= [...this.#series].sort(([a], [b]) => (a < b ? -1 : 1))
    return this.#sorted
  }
}

class RegisteredCounter implements Counter, Metric {
  readonly type = 'counter'
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
  readonly #series: SeriesMap<CounterSeries>

  constructor({ name, help, labelNames }: MetricInfo) {
    this.name = name
    this.help = help
    this.labelNames = labelNames
    this.#series = new SeriesMap(name, () => new CounterSeries())
    // Without labels there is one series, and it is 0 before the first count.
    if (labelNames.length === 0) this.labels()
  }

  labels(...values: readonly string[]): Series {
    return this.#series.get(seriesName(this, values))
  }

  lines(): readonly string[] {
    return this.#series.sorted().map(([key, { value }]) => `${key} ${value}`)
  }
}

class RegisteredHistogram implements LabelledHistogram, Metric {
  readonly type = 'histogram'
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
  readonly #series: SeriesMap<HistogramSeries>

  constructor({ name, help, labelNames }: MetricInfo, bounds: readonly number[]) {
    requireBounds(name, bounds)
    requireNoBoundLabel(name, labelNames)
    this.name = name
    this.help = help
    this.labelNames = labelNames
    this.#series = new SeriesMap(name, () => new HistogramSeries(bounds))
  }

  labels(...values: readonly string[]): ReadableHistogram {
    return this.#series.get(labelsText(this, values))
  }

  lines(): readonly string[] {
    return this.#series.sorted().flatMap(([labels, series]) => series.lines(this.name, labels))
  }
}

function linesOf(metric: MetricInfo, read: () => MetricValues): readonly string[] {
  let reading: MetricValues
  try {
    reading = read()
  } catch {
    // One number that cannot be read must not hide the others; its absence is what alerts see.
    return []
  }
  if (typeof reading === 'number') return [`${seriesName(metric, [])} ${formatNumber(reading)}`]
  return reading
    .map(([values, value]) => `${seriesName(metric, values)} ${formatNumber(value)}`)
    .sort()
}

function textOf(metric: Metric): string {
  const { name, help, type } = metric
  const head = `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`
  const lines = metric.lines()
  return lines.length === 0 ? head : `${head}${lines.join('\n')}\n`
}

function seriesName(metric: MetricInfo, values: readonly string[]): string {
  const labels = labelsText(metric, values)
  return labels === '' ? metric.name : `${metric.name}{${labels}}`
}

/** Labels as they are written, without braces; empty where there are none. */
function labelsText({ name, labelNames }: MetricInfo, values: readonly string[]): string {
  if (values.length !== labelNames.length) {
    throw new Error(
      `metric ${name}: found ${values.length} label values; ` +
        `accepted: ${labelNames.length} (${labelNames.join(', ')})`,
    )
  }
  return labelNames.map((label, place) => `${label}="${escapeValue(values[place] ?? '')}"`).join()
}

function escapeHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

function escapeValue(text: string): string {
  return escapeHelp(text).replaceAll('"', '\\"')
}

function formatNumber(value: number): string {
  if (value === Infinity) return '+Inf'
  return value === -Infinity ? '-Inf' : String(value)
}

function byName(a: Metric, b: Metric): number {
  return a.name < b.name ? -1 : 1
}

function requireTotal(name: string): void {
  if (name.endsWith('_total')) return
  throw new Error(`metric ${name}: a counter; accepted: a name that ends in _total`)
}

function requireNames(name: string, labelNames: readonly string[]): void {
  if (!METRIC_NAME.test(name) || name.length > NAME_LENGTH_MAX) {
    throw new Error(`metric ${name}: accepted: letters, digits, _ and :, not first a digit`)
  }
  if (HISTOGRAM_SUFFIX.test(name)) {
    throw new Error(`metric ${name}: accepted: a name that does not end as those of histograms do`)
  }
  labelNames.forEach((label, index) => {
    if (!LABEL_NAME.test(label) || label.length > NAME_LENGTH_MAX) {
      throw new Error(`metric ${name}, label ${label}: accepted: letters, digits and _`)
    }
    if (labelNames.indexOf(label) !== index) {
      throw new Error(`metric ${name}, label ${label}: named twice`)
    }
  })
}
