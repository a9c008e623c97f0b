/** Measurements beside their bounds, as panels: one for each algorithm. */
import { image, line, point, text } from './svg.mjs'

const PANEL = { width: 260, height: 200, left: 52, top: 74, gap: 24 }
const FOOT = 44
/** A logarithmic axis of shares; below it is a row for those that are 0. */
const LEAST = 0.001
const ZERO_ROW = 22

/** Units beyond the algorithm, as a share of the limit. */
export function excessPlot(rows, coordination) {
  const most = Math.max(...rows.map((row) => Math.max(row.excess, row.excessBound) / row.max))
  const top = Math.max(0.1, 10 ** Math.ceil(Math.log10(most)))
  return panels(rows, {
    title: `${coordination}: admitted beyond the limit, as a share of it`,
    axis: logAxis(top),
    measured: ({ excess, max }) => excess / max,
    bound: ({ excessBound, max }) => excessBound / max,
  })
}

/** Units held unspent, as a share of the limit. */
export function strandedPlot(rows) {
  return panels(rows, {
    title: 'leased: held by nodes and not spent, at the worst moment, as a share of the limit',
    axis: linearAxis(0.06, 0.01),
    measured: ({ strandedShare }) => strandedShare,
    bound: ({ strandedBound }) => strandedBound,
  })
}

function logAxis(top) {
  const decades = Math.log10(top / LEAST)
  const room = PANEL.height - ZERO_ROW
  const place = (share) =>
    share <= 0 ? PANEL.height : room * (1 - Math.log10(Math.max(share, LEAST) / LEAST) / decades)
  const ticks = Array.from({ length: decades + 1 }, (_, i) => LEAST * 10 ** i)
  return { place, ticks: [0, ...ticks] }
}

function linearAxis(top, step) {
  const place = (share) => PANEL.height * (1 - share / top)
  return { place, ticks: Array.from({ length: Math.round(top / step) + 1 }, (_, i) => i * step) }
}

function panels(rows, { title, axis, measured, bound }) {
  const distinct = (field) => [...new Set(rows.map((row) => row[field]))]
  const [algorithms, loads, fleets] = ['algorithm', 'load', 'nodes'].map(distinct)
  const width = PANEL.left + algorithms.length * (PANEL.width + PANEL.gap)
  const parts = [text(PANEL.left, 18, title, { kind: 'title' }), ...legend(fleets)]
  for (const [p, algorithm] of algorithms.entries()) {
    const left = PANEL.left + p * (PANEL.width + PANEL.gap)
    parts.push(...frame({ left, algorithm, axis, loads, hasLabels: p === 0 }))
    for (const row of rows.filter((each) => each.algorithm === algorithm)) {
      const slot = PANEL.width / loads.length
      const nth = (fleets.indexOf(row.nodes) + 1) / (fleets.length + 1)
      const x = left + slot * (loads.indexOf(row.load) + nth)
      const boundY = PANEL.top + axis.place(bound(row))
      const label = `${row.nodes} nodes, ${row.load} x: ${percent(measured(row))} of ${percent(bound(row))}`
      parts.push(line(x - 8, boundY, x + 8, boundY, 'bound'))
      parts.push(point(x, PANEL.top + axis.place(measured(row)), fleets.indexOf(row.nodes), label))
    }
  }
  const height = PANEL.top + PANEL.height + FOOT
  return image({ width, height, label: title }, parts)
}

function legend(fleets) {
  const y = 38
  const entries = fleets.flatMap((nodes, i) => {
    const x = PANEL.left + 6 + i * 86
    return [point(x, y - 4, i, `${nodes} nodes`), text(x + 10, y, `${nodes} nodes`)]
  })
  const x = PANEL.left + fleets.length * 86
  return [...entries, line(x, y - 4, x + 16, y - 4, 'bound'), text(x + 22, y, 'the bound')]
}

function frame({ left, algorithm, axis, loads, hasLabels }) {
  const { top, width, height } = PANEL
  const ticks = axis.ticks.flatMap((tick) => {
    const y = top + axis.place(tick)
    const label = text(left - 8, y + 4, percent(tick), { anchor: 'end', kind: 'note' })
    return [line(left, y, left + width, y, 'grid'), ...(hasLabels ? [label] : [])]
  })
  const slot = width / loads.length
  const columns = loads.map((load, i) =>
    text(left + slot * (i + 0.5), top + height + 18, `${load} x`, { anchor: 'middle' }),
  )
  return [
    text(left, top - 10, algorithm),
    ...ticks,
    line(left, top + height, left + width, top + height, 'axis'),
    ...columns,
    text(left + width / 2, top + height + 36, 'offered, of the limit', {
      anchor: 'middle',
      kind: 'note',
    }),
  ]
}

/** 0.1 %, 10 %: only significant digits. */
function percent(part) {
  return `${Number((part * 100).toPrecision(2))} %`
}
