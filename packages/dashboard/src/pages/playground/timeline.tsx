/** The traffic editor: each column is a slider, changed by dragging or with the keyboard. */
import { useRef } from 'preact/hooks'
import { rate as rateText } from '../../format.js'
import { columnSeconds, rateMax, type Span, type SimulatedLimit } from './calls.js'

const WIDTH = 600
const HEIGHT = 150
const GAP = 2

interface TimelineProps {
  readonly rates: readonly number[]
  readonly span: Span
  readonly limit: SimulatedLimit
  readonly onChange: (index: number, rate: number) => void
}

const KEYS: Readonly<Record<string, (value: number, max: number) => number>> = {
  ArrowUp: (value) => value + 1,
  ArrowRight: (value) => value + 1,
  ArrowDown: (value) => value - 1,
  ArrowLeft: (value) => value - 1,
  PageUp: (value) => value + 5,
  PageDown: (value) => value - 5,
  Home: () => 0,
  End: (_value, max) => max,
}

export function Timeline({ rates, span, limit, onChange }: TimelineProps) {
  const box = useRef<SVGSVGElement>(null)
  const max = rateMax(span)
  const clamp = (value: number) => Math.min(max, Math.max(0, Math.round(value * 2) / 2))
  const draw = (event: PointerEvent) => {
    if (event.buttons !== 1 || box.current === null) return
    const { left, top, width: boxWidth, height } = box.current.getBoundingClientRect()
    const index = Math.floor(((event.clientX - left) / boxWidth) * span.columns)
    if (index < 0 || index >= span.columns) return
    onChange(index, clamp((1 - (event.clientY - top) / height) * max))
  }
  const limitRate = limit.max / limit.windowSeconds
  return (
    <div class="timeline">
      <svg
        ref={box}
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="group"
        aria-label={`Requests per second, over ${span.seconds} seconds. Each column is a slider.`}
        onPointerDown={(event) => {
          event.preventDefault()
          event.currentTarget.setPointerCapture(event.pointerId)
          draw(event)
        }}
        onPointerMove={draw}
      >
        <rect class="timeline-back" width={WIDTH} height={HEIGHT} />
        {windowEdges(span, limit).map((x) => (
          <line key={x} class="timeline-edge" x1={x * WIDTH} x2={x * WIDTH} y1="0" y2={HEIGHT} />
        ))}
        {rates.map((value, index) => (
          <ColumnView
            key={index}
            index={index}
            value={value}
            span={span}
            onChange={(next) => onChange(index, clamp(next))}
          />
        ))}
        {limitRate <= max && (
          <line
            class="timeline-limit"
            x1="0"
            x2={WIDTH}
            y1={HEIGHT - (limitRate / max) * HEIGHT}
            y2={HEIGHT - (limitRate / max) * HEIGHT}
          />
        )}
      </svg>
      <div class="timeline-foot faint small">
        <span>0 s</span>
        <span>
          drag, or use the arrow keys; the dashed line is the limit, {rateText(limitRate)} per
          second
        </span>
        <span>{span.seconds} s</span>
      </div>
    </div>
  )
}

interface ColumnProps {
  readonly index: number
  readonly value: number
  readonly span: Span
  readonly onChange: (value: number) => void
}

function ColumnView({ index, value, span, onChange }: ColumnProps) {
  const max = rateMax(span)
  const width = WIDTH / span.columns
  const height = (value / max) * HEIGHT
  return (
    <g
      class="timeline-column"
      role="slider"
      tabindex={0}
      aria-label={`From second ${(index * columnSeconds(span)).toFixed(1)}`}
      aria-valuemin={0}
      aria-valuemax={max}
      aria-valuenow={value}
      aria-valuetext={`${rateText(value)} requests per second`}
      aria-orientation="vertical"
      onKeyDown={(event) => {
        const next = KEYS[event.key]?.(value, max)
        if (next === undefined) return
        event.preventDefault()
        onChange(next)
      }}
    >
      <rect class="timeline-hit-area" x={index * width} y="0" width={width} height={HEIGHT} />
      <rect
        class="timeline-bar"
        x={index * width + GAP / 2}
        y={HEIGHT - height}
        width={width - GAP}
        height={height}
      />
    </g>
  )
}

/** Window edges, as fractions of the time shown. */
export function windowEdges(
  { seconds }: Span,
  { windowSeconds }: SimulatedLimit,
): readonly number[] {
  const edges: number[] = []
  for (let at = windowSeconds; at < seconds; at += windowSeconds) edges.push(at / seconds)
  return edges
}
