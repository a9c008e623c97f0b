/** Small inline charts: a sparkline, a bar of shares, a meter and a bar with ceilings. */
import { count, percent, sum } from '../format.js'
import { classes, type Tone } from './tone.js'

interface SparklineProps {
  readonly values: readonly number[]
  /** Accessible name. */
  readonly label: string
  readonly tone?: Tone | undefined
  readonly width?: number | undefined
  readonly height?: number | undefined
  /** Top of the scale; by default the highest value. */
  readonly max?: number | undefined
  /** Steps on the time axis; fewer values are aligned right. */
  readonly steps?: number | undefined
}

export function Sparkline(props: SparklineProps) {
  const { values, label, tone = 'accent', width = 96, height = 24 } = props
  const top = Math.max(props.max ?? 0, ...values)
  const slots = Math.max(values.length, props.steps ?? 0)
  const step = slots < 2 ? width : width / (slots - 1)
  const left = (slots - values.length) * step
  const y = (value: number) => height - 1.5 - (top === 0 ? 0 : (value / top) * (height - 3))
  const points = values.map((value, index) => `${round(left + index * step)},${round(y(value))}`)
  return (
    <svg
      class={classes('sparkline', `tone-${tone}`)}
      width={width}
      height={height}
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={label}
    >
      {points.length > 1 && (
        <>
          <polygon
            class="sparkline-fill"
            points={`${round(left)},${height} ${points.join(' ')} ${width},${height}`}
          />
          <polyline class="sparkline-line" points={points.join(' ')} />
        </>
      )}
    </svg>
  )
}

const round = (value: number): number => Math.round(value * 10) / 10

interface ShareBarProps {
  readonly label: string
  readonly segments: readonly {
    readonly label: string
    readonly value: number
    readonly tone: Tone
  }[]
  readonly hasLegend?: boolean | undefined
}

/** A bar divided into the shares of a total. */
export function ShareBar({ label, segments, hasLegend = false }: ShareBarProps) {
  const total = sum(segments.map((segment) => segment.value))
  const share = (value: number) => (total === 0 ? 0 : value / total)
  const summary = segments
    .map((segment) => `${segment.label} ${percent(share(segment.value))}`)
    .join(', ')
  let start = 0
  return (
    <div class="share">
      <svg
        class="share-bar"
        viewBox="0 0 100 8"
        preserveAspectRatio="none"
        role="img"
        aria-label={`${label}: ${total === 0 ? 'no data' : summary}`}
      >
        {segments.map((segment) => {
          const x = start
          const width = share(segment.value) * 100
          start += width
          return (
            width > 0 && (
              <rect
                key={segment.label}
                class={`tone-${segment.tone}`}
                x={x}
                width={width}
                height="8"
              />
            )
          )
        })}
      </svg>
      {hasLegend && (
        <ul class="legend" aria-hidden="true">
          {segments.map((segment) => (
            <li key={segment.label} class={`tone-${segment.tone}`}>
              {segment.label} <b>{percent(share(segment.value))}</b>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

interface MeterProps {
  readonly label: string
  /** From 0 to 1. */
  readonly value: number
  readonly tone?: Tone | undefined
}

/** A bar that is filled up to `value`. */
export function Meter({ label, value, tone = 'accent' }: MeterProps) {
  const width = Math.min(100, Math.max(0, value * 100))
  return (
    <svg
      class={`share-bar tone-${tone}`}
      viewBox="0 0 100 8"
      preserveAspectRatio="none"
      role="img"
      aria-label={`${label}: ${percent(value)}`}
    >
      <rect width={width} height="8" />
    </svg>
  )
}

interface CeilingBarProps {
  readonly label: string
  readonly value: number
  readonly max: number
  /** Marked where they are below the maximum. */
  readonly ceilings: readonly number[]
  readonly tone?: Tone | undefined
}

/** How much of a maximum is used, with marks where less important use ends. */
export function CeilingBar({ label, value, max, ceilings, tone = 'accent' }: CeilingBarProps) {
  const place = (units: number) => (max === 0 ? 0 : Math.min(100, (units / max) * 100))
  const ends = ceilings.length === 0 ? '' : `; ceilings at ${ceilings.map(count).join(', ')}`
  return (
    <svg
      class={`share-bar ceiling-bar tone-${tone}`}
      viewBox="0 0 100 8"
      preserveAspectRatio="none"
      role="img"
      aria-label={`${label}: ${count(value)} of ${count(max)}${ends}`}
    >
      <rect width={place(value)} height="8" />
      {ceilings.map((ceiling) => (
        <rect key={ceiling} class="ceiling-mark" x={place(ceiling) - 0.5} width="1" height="8" />
      ))}
    </svg>
  )
}
