/** Parses the samples of a registry from its Prometheus text, so that both always agree. */
import { HISTOGRAM_SUFFIX } from '../metrics/histogram.js'

export interface SampledMetric {
  readonly name: string
  readonly help: string
  /** Whether it is monotonic. */
  readonly isCounter: boolean
  readonly samples: Sample[]
}

interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const HEAD = /^# (HELP|TYPE) (\S+) (.*)$/s
const SAMPLE = /^([^{ ]+)(?:\{(.*)\})? (\S+)$/s
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/gs

/** The samples of a histogram become counters, each under its own name. */
export function readSamples(text: string): ReadonlyMap<string, SampledMetric> {
  const metrics = new Map<string, SampledMetric>()
  const types = new Map<string, string>()
  const helps = new Map<string, string>()
  for (const line of text.split('\n')) {
    const [, word, metricName = '', rest = ''] = HEAD.exec(line) ?? []
    if (word === 'HELP') helps.set(metricName, unescape(rest))
    if (word === 'TYPE') types.set(metricName, rest)
    const sample = word === undefined ? SAMPLE.exec(line) : null
    if (sample === null) continue
    const [, name = '', labels = '', value = ''] = sample
    const whole = types.has(name) ? name : name.replace(HISTOGRAM_SUFFIX, '')
    const metric = metrics.get(name) ?? {
      name,
      help: helps.get(whole) ?? '',
      isCounter: types.get(whole) !== 'gauge',
      samples: [],
    }
    metrics.set(name, metric)
    metric.samples.push({ labels: readLabels(labels), value: readNumber(value) })
  }
  return metrics
}

function readLabels(text: string): Readonly<Record<string, string>> {
  const labels: Record<string, string> = {}
  for (const [, name = '', value = ''] of text.matchAll(LABEL)) labels[name] = unescape(value)
  return labels
}

function readNumber(text: string): number {
  if (text === '+Inf') return Infinity
  return text === '-Inf' ? -Infinity : Number(text)
}

function unescape(text: string): string {
  return text.replace(/\\(.)/gs, (_, char: string) => (char === 'n' ? '\n' : char))
}
