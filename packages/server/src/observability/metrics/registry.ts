/**
 * Holds the metrics of one process and writes them in the Prometheus text format, version 0.0.4.
 *
 * Incrementing is one addition: callers keep the series that `labels` returns. Sorting and
 * formatting happen only when the metrics are scraped.
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
  /** Returns the series of these label values, in the order of the label names. */
  labels(...values: readonly string[]): Series
}

/** Read at each scrape: one number, or one for each list of label values. */
type MetricValues = number | readonly (readonly [values: readonly string[], value: number])[]

/**
 * How the values of several workers become the one value that a node reports.
 *
 * `sum`: each worker counts its own share. `max` and `min`: all workers observe the same thing,
 * and the worst value counts. `furthest`: the same for a deviation, which is worst far from 0.
 */
export type MergeMethod = 'sum' | 'max' | 'min' | 'furthest'

export interface Registry {
  /** A counter that is incremented through the returned object. Workers are summed. */
  counter(name: string, help: string, labelNames?: readonly string[]): Counter
  /** The same under a name of another program, whose counters have no `_total`. */
  foreignCounter(name: string, help: string, labelNames?: readonly string[]): Counter
  /** A histogram with these upper bounds, in ascending order. Workers are summed. */
  histogram(name: string, help: string, bounds: readonly number[]): ReadableHistogram
  /** A histogram for each list of label values. */
  labelledHistogram(
    name: string,
    help: string,
    bounds: readonly number[],
    labelNames: readonly string[],
  ): LabelledHistogram
  /** A counter whose value is read at each scrape. Workers are summed unless `merge` differs. */
  total(
    name: string,
    help: string,
    read: () => MetricValues,
    options?: {
      readonly labelNames?: readonly string[]
      readonly merge?: MergeMethod
      /** Whether the name is of another program, whose counters have no `_total`. */
      readonly isForeign?: boolean
    },
  ): void
  /** A value that goes up and down, read at each scrape. */
  gauge(
    name: string,
    help: string,
    merge: MergeMethod,
    read: () => MetricValues,
    labelNames?: readonly string[],
  ): void
  /** All metrics, sorted by name and labels. */
  text(): string
  /** The same with the merge method of each metric, for `mergeMetrics`. */
  mergeableText(): string
}

export const METRICS_CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

const METRIC_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const LABEL_NAME = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/
const NAME_LENGTH_MAX = 128
/** More series than this can only come from label values that callers choose: a bug. */
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
  const textWith = (head: (metric: Metric) => string) => () =>
    [...metrics.values()]
      .sort(byName)
      .map((metric) => textOf(metric, head(metric)))
      .join('')
  return {
    counter(name, help, labelNames = []) {
      requireTotal(name)
      return register(new RegisteredCounter({ name, help, labelNames }))
    },
    foreignCounter: (name, help, labelNames = []) =>
      register(new RegisteredCounter({ name, help, labelNames })),
    histogram: (name, help, bounds) =>
      register(new RegisteredHistogram({ name, help, labelNames: [] }, bounds)).labels(),
    labelledHistogram: (name, help, bounds, labelNames) =>
      register(new RegisteredHistogram({ name, help, labelNames }, bounds)),
    total(name, help, read, { labelNames = [], merge = 'sum', isForeign = false } = {}) {
      if (!isForeign) requireTotal(name)
      const metric = { name, help, labelNames, merge }
      register({ ...metric, type: 'counter', lines: () => linesOf(metric, read) })
    },
    gauge(name, help, merge, read, labelNames = []) {
      const metric = { name, help, labelNames, merge }
      register({ ...metric, type: 'gauge', lines: () => linesOf(metric, read) })
    },
    text: textWith(headOf),
    mergeableText: textWith((metric) => `${headOf(metric)}${mergeLine(metric)}`),
  }
}

interface MetricInfo {
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
}

interface Metric extends MetricInfo {
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly merge: MergeMethod
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
  /** By their labels, or name and labels, in the text format. */
  readonly #series = new Map<string, S>()
  readonly #name: string
  readonly #make: () => S
  /** Undefined after a series was added. */
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
  readonly merge = 'sum'
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
  readonly #series: SeriesMap<CounterSeries>

  constructor({ name, help, labelNames }: MetricInfo) {
    this.name = name
    this.help = help
    this.labelNames = labelNames
    this.#series = new SeriesMap(name, () => new CounterSeries())
    // A metric without labels has one series, which is 0 before the first increment.
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
  readonly merge = 'sum'
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
    // One metric that cannot be read must not hide the others. Alerts fire on its absence.
    return []
  }
  if (typeof reading === 'number') return [`${seriesName(metric, [])} ${formatNumber(reading)}`]
  return reading
    .map(([values, value]) => `${seriesName(metric, values)} ${formatNumber(value)}`)
    .sort()
}

function headOf({ name, help, type }: Metric): string {
  return `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`
}

/** Starts the comment line that carries the merge method of a metric, `# MERGE <name> <method>`. */
export const MERGE_LINE = '# MERGE '

function mergeLine({ name, merge }: Metric): string {
  return merge === 'sum' ? '' : `${MERGE_LINE}${name} ${merge}\n`
}

function textOf(metric: Metric, head: string): string {
  const lines = metric.lines()
  return lines.length === 0 ? head : `${head}${lines.join('\n')}\n`
}

function seriesName(metric: MetricInfo, values: readonly string[]): string {
  const labels = labelsText(metric, values)
  return labels === '' ? metric.name : `${metric.name}{${labels}}`
}

/** Formats labels without the braces; empty without labels. */
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
