/** A small strict parser of the Prometheus text format. */

export interface ParsedMetric {
  readonly help: string
  readonly type: string
  /** By labels, as JSON of a sorted list of pairs. */
  readonly samples: ReadonlyMap<string, number>
}

const HELP = /^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) ([^\n]*)$/
const TYPE = /^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)$/
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([^\n]*)\})? (\S+)$/
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)/y

export function readMetrics(text: string): ReadonlyMap<string, ParsedMetric> {
  if (!text.endsWith('\n')) throw new Error('The last line has no end')
  const metrics: Metrics = new Map()
  for (const line of text.slice(0, -1).split('\n')) {
    const help = HELP.exec(line)
    const type = TYPE.exec(line)
    const sample = SAMPLE.exec(line)
    const name = help?.[1] ?? type?.[1] ?? sample?.[1] ?? ''
    const whole = metrics.get(name.replace(/_(?:bucket|sum|count)$/, ''))
    const isPart = whole?.type === 'histogram' && sample !== null
    const known = isPart ? partOf(metrics, name, whole.help) : metrics.get(name)
    if (help !== null) {
      if (known !== undefined) throw new Error(`${name}: found twice`)
      metrics.set(name, { help: unescape(help[2] ?? ''), type: '', samples: new Map() })
    } else if (known === undefined) {
      throw new Error(`Before its HELP, or no line of a metric: ${line}`)
    } else if (type !== null) known.type = type[2] ?? ''
    else addSample(known.samples, sample?.[2] ?? '', sample?.[3] ?? '', line)
  }
  return metrics
}

type Metrics = Map<string, { help: string; type: string; samples: Map<string, number> }>

/** The buckets, the sum and the count of a histogram, each under its own name. */
function partOf(metrics: Metrics, name: string, help: string) {
  const part = metrics.get(name) ?? { help, type: 'histogram', samples: new Map() }
  metrics.set(name, part)
  return part
}

/** The value of one series; undefined if there is none. */
export function valueOf(
  metrics: ReadonlyMap<string, ParsedMetric>,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  return metrics.get(name)?.samples.get(keyOf(Object.entries(labels)))
}

function addSample(samples: Map<string, number>, labels: string, value: string, line: string) {
  const pairs: [string, string][] = []
  LABEL.lastIndex = 0
  let end = 0
  while (end < labels.length) {
    const pair = LABEL.exec(labels)
    if (pair === null) throw new Error(`Labels that cannot be read: ${line}`)
    pairs.push([pair[1] ?? '', unescape(pair[2] ?? '')])
    end = LABEL.lastIndex
  }
  const key = keyOf(pairs)
  if (samples.has(key)) throw new Error(`Written twice: ${line}`)
  samples.set(key, value === '+Inf' ? Infinity : value === '-Inf' ? -Infinity : Number(value))
}

function keyOf(pairs: readonly (readonly [string, string])[]): string {
  return JSON.stringify([...pairs].sort(([a], [b]) => (a < b ? -1 : 1)))
}

function unescape(text: string): string {
  return text.replace(/\\(.)/gs, (_, char: string) => (char === 'n' ? '\n' : char))
}
