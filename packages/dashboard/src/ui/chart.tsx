/** Lines over time. The picture is for eyes; its sentence and its table say the same. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { clockMinute, clockTime, count } from '../format.js'
import { theme } from '../theme.js'
import { Room } from './room.js'
import { classes, type Tone } from './tone.js'

export interface ChartLine {
  readonly label: string
  readonly tone: Tone
  /** The oldest first; null: there was nothing to tell. */
  readonly values: readonly (number | null)[]
  readonly isFilled?: boolean | undefined
  readonly isDashed?: boolean | undefined
}

interface TimeChartProps {
  readonly label: string
  /** What there is to see, in a sentence. */
  readonly summary: string
  /** All of the same length. */
  readonly lines: readonly ChartLine[]
  /** When the last step ended. */
  readonly endMs: number
  readonly stepMs: number
  /** How many it is drawn for: where there are fewer, the rest on the left stays empty. */
  readonly steps?: number | undefined
  readonly height?: number | undefined
  readonly unit?: string | undefined
  readonly format?: ((value: number) => string) | undefined
}

/** Rows of the table that stands for the picture. */
const TABLE_ROWS = 15
const MINUTE_S = 60

export function TimeChart(given: TimeChartProps) {
  const { label, summary, endMs, stepMs, unit = '', format = count } = given
  const lines = useMemo(() => padded(given), [given.lines, given.steps])
  const props = { ...given, lines }
  const room = useRef<HTMLDivElement>(null)
  const [pointed, setPointed] = useState<number | null>(null)
  usePlot(room, props, setPointed)
  const length = lines[0]?.values.length ?? 0
  const at = Math.min(pointed ?? length - 1, length - 1)
  const timeAt = (index: number) => endMs - (length - 1 - index) * stepMs
  const told = (value: number | null | undefined) =>
    value === null || value === undefined ? '–' : `${format(value)}${unit === '' ? '' : ` ${unit}`}`
  return (
    <figure class="chart">
      <div class="chart-room" role="img" aria-label={`${label}. ${summary}`} ref={room} />
      <figcaption class="chart-foot">
        <ul class="legend" aria-hidden="true">
          {lines.map((line) => (
            <li
              key={line.label}
              class={classes(`tone-${line.tone}`, line.isDashed && 'legend-dashed')}
            >
              {line.label} <b>{told(line.values[at])}</b>
            </li>
          ))}
          <li class="legend-time">{length === 0 ? '' : clockTime(timeAt(at))}</li>
        </ul>
        <Values lines={lines} label={label} timeAt={timeAt} told={told} />
      </figcaption>
    </figure>
  )
}

function padded({ lines, steps = 0 }: TimeChartProps): readonly ChartLine[] {
  return lines.map((line) => {
    const missing = Math.max(0, steps - line.values.length)
    const empty = Array.from({ length: missing }, () => null)
    return missing === 0 ? line : { ...line, values: [...empty, ...line.values] }
  })
}

interface ValuesProps {
  readonly label: string
  readonly lines: readonly ChartLine[]
  readonly timeAt: (index: number) => number
  readonly told: (value: number | null | undefined) => string
}

/** Some of the values, evenly chosen, for whoever reads rather than looks. */
function Values({ label, lines, timeAt, told }: ValuesProps) {
  const [isOpen, setOpen] = useState(false)
  const length = lines[0]?.values.length ?? 0
  const every = Math.max(1, Math.ceil(length / TABLE_ROWS))
  const rows = Array.from(
    { length: Math.ceil(length / every) },
    (_, row) => length - 1 - row * every,
  )
  return (
    <details class="chart-values" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        as a table<span class="unseen"> of {label}</span>
      </summary>
      {isOpen && (
        <Room label={`Values of ${label}`} class="chart-table">
          <table class="table table-plain">
            <caption class="unseen">{label}</caption>
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
                      {told(line.values[row])}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </Room>
      )}
    </details>
  )
}

type Point = (index: number | null) => void

/** Keeps one drawing in step with what the component was given. */
function usePlot(
  room: { readonly current: HTMLDivElement | null },
  props: TimeChartProps,
  onPoint: Point,
) {
  const plot = useRef<uPlot | null>(null)
  const shape = props.lines.map((line) => `${line.label}/${line.tone}`).join()
  useEffect(() => {
    const element = room.current
    if (element === null) return
    const drawn = new uPlot(optionsOf(props, element, onPoint), dataOf(props), element)
    plot.current = drawn
    const watch = new ResizeObserver(() => {
      const width = element.clientWidth
      if (width > 0 && width !== drawn.width) drawn.setSize({ width, height: drawn.height })
    })
    watch.observe(element)
    return () => {
      watch.disconnect()
      drawn.destroy()
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
/** Of a chart on a phone. */
const NARROW = 420
const FONT = '11px system-ui, sans-serif'

function optionsOf(props: TimeChartProps, element: HTMLElement, onPoint: Point): uPlot.Options {
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
    scales: { x: { time: true }, y: { range: (_plot, _low, high) => [0, topOf(high)] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 26,
        // Of a label, with its seconds and a gap.
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
    hooks: { setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)] },
  }
}

/** A little above the highest, so that it does not touch the frame. */
const topOf = (high: number | null): number => (high === null || high <= 0 ? 1 : high * 1.12)
