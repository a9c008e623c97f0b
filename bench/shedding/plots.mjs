/** The plots of the page: what is served of critical calls, and of all, at each load. */
import { curve, image, line, point, text } from '../coordination/svg.mjs'

const PANEL = { width: 330, height: 190, left: 52, top: 66, gap: 56 }
const BOTTOM = 44

const KINDS = [
  { title: 'critical calls served', read: ({ served }) => served.critical, most: 1 },
  { title: 'goodput, of the capacity', read: ({ goodput }) => goodput, most: 1.1 },
]

/** Two panels with a line for each subject; loads are on a logarithmic axis. */
export function sheddingPlot({ half, steps }) {
  const loads = [...new Set(steps.map(({ x }) => x))]
  const width = PANEL.left + KINDS.length * (PANEL.width + PANEL.gap)
  const legendRows = Math.ceil(half.subjects.length / 3)
  const top = PANEL.top + legendRows * 18
  const height = top + PANEL.height + BOTTOM
  const title = `Overload of ${half.about}`
  const parts = [text(12, 20, title, { kind: 'title' })]
  for (const [s, subject] of half.subjects.entries()) {
    const x = 16 + (s % 3) * 240
    const y = 40 + Math.floor(s / 3) * 18
    parts.push(point(x, y - 4, s, subject), text(x + 12, y, subject, { kind: 'note' }))
  }
  const [least, most] = [Math.min(...loads), Math.max(...loads)].map(Math.log)
  for (const [k, kind] of KINDS.entries()) {
    const left = PANEL.left + k * (PANEL.width + PANEL.gap)
    const xOf = (x) => left + ((Math.log(x) - least) / (most - least)) * PANEL.width
    const yOf = (share) => top + PANEL.height * (1 - Math.min(share, kind.most) / kind.most)
    parts.push(text(left, top - 8, kind.title))
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      parts.push(line(left, yOf(share), left + PANEL.width, yOf(share), 'grid'))
      parts.push(
        text(left - 6, yOf(share) + 4, `${share * 100} %`, { anchor: 'end', kind: 'note' }),
      )
    }
    for (const x of loads) {
      const y = top + PANEL.height
      parts.push(line(xOf(x), y, xOf(x), y + 4, 'axis'))
      parts.push(text(xOf(x), y + 18, `${x} x`, { anchor: 'middle', kind: 'note' }))
    }
    parts.push(line(left, top + PANEL.height, left + PANEL.width, top + PANEL.height, 'axis'))
    // The first subject last, so that nothing hides it.
    for (const [s, subject] of [...half.subjects.entries()].toReversed()) {
      const own = steps.filter((step) => step.subject === subject)
      const points = own.map((step) => [xOf(step.x), yOf(kind.read(step))])
      parts.push(curve(points, s))
      for (const [i, step] of own.entries()) {
        const label = `${subject}, ${step.x} times: ${(kind.read(step) * 100).toFixed(1)} %`
        parts.push(point(...points[i], s, label))
      }
    }
  }
  return image({ width, height, label: title }, parts)
}
