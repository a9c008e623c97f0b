/** The plots of the guide: shares as bars, arrivals of a herd as histograms. */
import { image, line, text } from '../coordination/svg.mjs'

const ROW = 22
const LEFT = 170
const PANEL = { width: 190, gap: 24, top: 64 }

const rect = (x, y, width, height, kind, label) =>
  `<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${Math.max(width, 0.5).toFixed(1)}" ` +
  `height="${height.toFixed(1)}" class="${kind}"><title>${label}</title></rect>`

/** A panel for each algorithm; two bars for each client. */
export function sharesPlot(rows, algorithms) {
  const subjects = [...new Set(rows.map(({ subject }) => subject))]
  const width = LEFT + algorithms.length * (PANEL.width + PANEL.gap)
  const height = PANEL.top + subjects.length * ROW * 1.6 + 30
  const title = 'Ten clients that want three times the limit'
  const parts = [
    text(12, 20, title, { kind: 'title' }),
    rect(12, 30, 10, 10, 'n0', ''),
    text(26, 39, 'share of the limit that was used', { kind: 'note' }),
    rect(222, 30, 10, 10, 'n1', ''),
    text(236, 39, 'share of answers that were 429', { kind: 'note' }),
  ]
  for (const [s, subject] of subjects.entries()) {
    parts.push(text(LEFT - 10, PANEL.top + s * ROW * 1.6 + 18, subject, { anchor: 'end' }))
  }
  for (const [a, { algorithm, name }] of algorithms.entries()) {
    const left = LEFT + a * (PANEL.width + PANEL.gap)
    const bottom = PANEL.top + subjects.length * ROW * 1.6 + 6
    parts.push(text(left, PANEL.top - 6, name))
    for (const share of [0, 0.5, 1]) {
      const x = left + share * PANEL.width
      parts.push(line(x, PANEL.top, x, bottom, 'grid'))
      parts.push(text(x, bottom + 14, `${share * 100} %`, { anchor: 'middle', kind: 'note' }))
    }
    for (const row of rows.filter((each) => each.algorithm === algorithm)) {
      const y = PANEL.top + subjects.indexOf(row.subject) * ROW * 1.6 + 4
      for (const [i, share] of [row.used, row.refused].entries()) {
        const label = `${row.subject}: ${(share * 100).toFixed(1)} %`
        parts.push(rect(left, y + i * 12, Math.min(share, 1) * PANEL.width, 10, `n${i}`, label))
      }
    }
  }
  return image({ width, height, label: title }, parts)
}

/** A histogram for each kind of herd, all on one scale. */
export function herdPlot(herds) {
  const panel = { width: 320, height: 110, left: 44, top: 60, gapX: 40, gapY: 62 }
  const top = Math.max(...herds.map(({ peak }) => peak))
  const rowsOf = Math.ceil(herds.length / 2)
  const width = panel.left + 2 * (panel.width + panel.gapX)
  const height = panel.top + rowsOf * (panel.height + panel.gapY)
  const title = 'When a thousand refused clients come back: requests in each 50 ms of a second'
  const parts = [text(12, 20, title, { kind: 'title' })]
  for (const [h, { name, bins, peak, mean }] of herds.entries()) {
    const left = panel.left + (h % 2) * (panel.width + panel.gapX)
    const y0 = panel.top + Math.floor(h / 2) * (panel.height + panel.gapY)
    const bottom = y0 + panel.height
    const yOf = (count) => bottom - (count / top) * panel.height
    parts.push(text(left, y0 - 8, `${name}: peak ${peak}, mean ${mean.toFixed(0)}`))
    parts.push(line(left, bottom, left + panel.width, bottom, 'axis'))
    parts.push(text(left - 6, yOf(top) + 10, String(top), { anchor: 'end', kind: 'note' }))
    parts.push(text(left - 6, bottom, '0', { anchor: 'end', kind: 'note' }))
    const slot = panel.width / bins.length
    for (const [b, count] of bins.entries()) {
      const label = `${b * 50} ms: ${count}`
      parts.push(rect(left + b * slot + 1, yOf(count), slot - 2, bottom - yOf(count), 'n0', label))
    }
    parts.push(line(left, yOf(mean), left + panel.width, yOf(mean), 'bound'))
    parts.push(text(left, bottom + 14, '0 ms', { kind: 'note' }))
    const right = left + panel.width
    parts.push(text(right, bottom + 14, '1,000 ms', { anchor: 'end', kind: 'note' }))
  }
  return image({ width, height, label: title }, parts)
}
