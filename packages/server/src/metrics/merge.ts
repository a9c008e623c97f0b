/** The metrics of several processes as those of one. */

/** What is the same in all of them, or worst where it is worst; everything else adds up. */
const HIGHEST: ReadonlySet<string> = new Set(['sluice_rules_version', 'sluice_rules_age_seconds'])

/** Texts as the registry writes them; an empty one counts for nothing. */
export function mergeMetrics(texts: readonly string[]): string {
  const values = new Map<string, number>()
  /** Each metric's head and series, in the order of the first text that has them. */
  const metrics = new Map<string, { head: string[]; readonly series: Set<string> }>()
  for (const text of texts) {
    for (const line of text.split('\n')) {
      if (line === '') continue
      const isHead = line.startsWith('#')
      const name = isHead ? (line.split(' ')[2] ?? '') : (/^[^{ ]+/.exec(line)?.[0] ?? '')
      const metric = metrics.get(name) ?? { head: [], series: new Set() }
      metrics.set(name, metric)
      if (isHead) {
        if (!metric.head.includes(line)) metric.head.push(line)
        continue
      }
      const space = line.lastIndexOf(' ')
      const series = line.slice(0, space)
      const value = Number(line.slice(space + 1))
      const before = values.get(series) ?? 0
      metric.series.add(series)
      values.set(series, HIGHEST.has(name) ? Math.max(before, value) : before + value)
    }
  }
  const lines = [...metrics.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, { head, series }]) => [
      ...head,
      ...[...series].sort().map((name) => `${name} ${values.get(name) ?? 0}`),
    ])
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`
}
