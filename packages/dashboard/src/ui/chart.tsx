/** Line charts over time, each with a sentence and a table for screen readers. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { clockMinute, clockTime, count } from '../format.js'
import { theme } from '../theme.js'
import { ScrollArea } from './scroll-area.js'
import { classes, type Tone } from './tone.js'

export interface ChartLine {
  readonly label: string
  readonly tone: Tone
  /** Oldest first; null where there is no value. */
  readonly values: readonly (number | null)[]
  readonly isFilled?: boolean | undefined
  readonly isDashed?: boolean | undefined
}

interface TimeChartProps {
  readonly label: string
  /** The chart in one sentence. */
  readonly summary: string
  /** Every line has the same number of values. */
  readonly lines: readonly ChartLine[]
  /** End of the last step. */
  readonly endMs: number
  readonly stepMs: number
  /** Steps on the time axis; with fewer values the left side stays empty. */
  readonly steps?: number | undefined
  readonly height?: number | undefined
  readonly unit?: string | undefined
  readonly format?: ((value: number) => string) | undefined
}

/** Rows of the table view. */
const TABLE_ROWS = 15
const MINUTE_S = 60

export function TimeChart(props: TimeChartProps) {
  const { label, summary, endMs, stepMs, unit = '', format = count } = props
  const lines = useMemo(() => padLines(props), [props.lines, props.steps])
  const container = useRef<HTMLDivElement>(null)
  const [hoverIndex, setHoverIndex] = useState<number | null>(null)
  usePlot(container, { ...props, lines }, setHoverIndex)
  const length = lines[0]?.values.length ?? 0
  const at = Math.min(hoverIndex ?? length - 1, length - 1)
  const timeAt = (index: number) => endMs - (length - 1 - index) * stepMs
  const valueText = (value: number | null | undefined) =>
    value === null || value === undefined ? '–' : `${format(value)}${unit === '' ? '' : ` ${unit}`}`
  return (
    <figure class="chart">
      <div class="chart-canvas" role="img" aria-label={`${label}. ${summary}`} ref={container} />
      <figcaption class="chart-foot">
        <ul class="legend" aria-hidden="true">
          {lines.map((line) => (
            <li
              key={line.label}
              class={classes(`tone-${line.tone}`, line.isDashed && 'legend-dashed')}
            >
              {line.label} <b>{valueText(line.values[at])}</b>
            </li>
          ))}
          <li class="legend-time">{length === 0 ? '' : clockTime(timeAt(at))}</li>
        </ul>
        <ValuesTable lines={lines} label={label} timeAt={timeAt} valueText={valueText} />
      </figcaption>
    </figure>
  )
}

function padLines({ lines, steps = 0 }: TimeChartProps): readonly ChartLine[] {
  return lines.map((line) => {
    const missing = Math.max(0, steps - line.values.length)
    const empty = Array.from({ length: missing }, () => null)
    return missing === 0 ? line : { ...line, values: [...empty, ...line.values] }
  })
}

interface ValuesTableProps {
  readonly label: string
  readonly lines: readonly ChartLine[]
  readonly timeAt: (index: number) => number
  readonly valueText: (value: number | null | undefined) => string
}

/** A table of evenly sampled values, for screen readers. */
function ValuesTable({ label, lines, timeAt, valueText }: ValuesTableProps) {
  const [isOpen, setOpen] = useState(false)
  const length = lines[0]?.values.length ?? 0
  const stride = Math.max(1, Math.ceil(length / TABLE_ROWS))
  const rows = Array.from(
    { length: Math.ceil(length / stride) },
    (_, row) => length - 1 - row * stride,
  )
  return (
    <details class="chart-values" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        View as table<span class="visually-hidden">: {label}</span>
      </summary>
      {isOpen && (
        <ScrollArea label={`Values: ${label}`} class="chart-table">
          <table class="table table-plain">
            <caption class="visually-hidden">{label}</caption>
            <thead>
              <tr>
                <th scope="col">Time</th>
                {lines.map((line) => (
                  <th scope="col" class="number" key={line.label}>
                    {line.label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={timeAt(row)}>
                  <th scope="row">{clockTime(timeAt(row))}</th>
                  {lines.map((line) => (
                    <td class="number" key={line.label}>
                      {valueText(line.values[row])}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollArea>
      )}
    </details>
  )
}

type OnHover = (index: number | null) => void

/** Creates one uPlot chart and updates it when the props change. */
function usePlot(
  container: { readonly current: HTMLDivElement | null },
  props: TimeChartProps,
  onHover: OnHover,
) {
  const plot = useRef<uPlot | null>(null)
  const shape = props.lines.map((line) => `${line.label}/${line.tone}`).join()
  useEffect(() => {
    const element = container.current
    if (element === null) return
    const chart = new uPlot(optionsOf(props, element, onHover), dataOf(props), element)
    plot.current = chart
    const observer = new ResizeObserver(() => {
      const width = element.clientWidth
      if (width > 0 && width !== chart.width) chart.setSize({ width, height: chart.height })
    })
    observer.observe(element)
    return () => {
      observer.disconnect()
      chart.destroy()
      plot.current = null
    }
  }, [shape, props.stepMs, props.height, theme.value])
  useEffect(() => {
    plot.current?.setData(dataOf(props))
  }, [props.endMs, props.lines])
}

function dataOf({ lines, endMs, stepMs }: TimeChartProps): uPlot.AlignedData {
  const length = lines[0]?.values.length ?? 0
  const times = Array.from({ length }, (_, index) => (endMs - (length - 1 - index) * stepMs) / 1000)
  return [times, ...lines.map((line) => [...line.values])]
}

const HEIGHT = 220
/** Below this width, in pixels, the time labels get more space. */
const NARROW = 420
const FONT = '11px system-ui, sans-serif'

function optionsOf(props: TimeChartProps, element: HTMLElement, onHover: OnHover): uPlot.Options {
  const { lines, height = HEIGHT, format = count } = props
  const style = getComputedStyle(element)
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim()
  const toneColour = (tone: Tone) => colour(tone === 'neutral' ? 'ink-faint' : tone)
  const axis = { stroke: colour('ink-soft'), font: FONT, ticks: { show: false } }
  return {
    width: element.clientWidth || 300,
    height,
    padding: [8, 28, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7, width: 2 } },
    scales: { x: { time: true }, y: { range: (_plot, _low, high) => [0, axisTop(high)] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 26,
        // Width of one label with seconds, and a gap.
        space: (plot) => (plot.width < NARROW ? 72 : 64),
        values: (_plot, ticks, _axis, _space, step) =>
          ticks.map((tick) => (step < MINUTE_S ? clockTime : clockMinute)(tick * 1000)),
      },
      {
        ...axis,
        grid: { stroke: colour('line'), width: 1 },
        size: 52,
        gap: 6,
        space: 36,
        values: (_plot, ticks) => ticks.map((tick) => format(tick)),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: toneColour(line.tone),
        width: 1.75,
        points: { show: false },
        ...(line.isFilled === true ? { fill: `${toneColour(line.tone)}24` } : {}),
        ...(line.isDashed === true ? { dash: [5, 4] } : {}),
      })),
    ],
    hooks: { setCursor: [(plot) => onHover(plot.cursor.idx ?? null)] },
  }
}

/** Slightly above the highest value, so that the line does not touch the frame. */
const axisTop = (high: number | null): number => (high === null || high <= 0 ? 1 : high * 1.12)
