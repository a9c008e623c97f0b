/** What one algorithm did with the calls, as stacked columns: colour and pattern say the same. */
import { count } from '../../format.js'
import { Loading } from '../../ui/index.js'
import type { Algorithm, Span, TriedLimit } from './calls.js'
import { type Lane, NAMES } from './lanes.js'
import { edgesOf } from './timeline.js'

const WIDTH = 600
const HEIGHT = 64
const GAP = 2

/** The patterns, once on the page; every lane points at them. */
export function Legend() {
  return (
    <div class="play-legend">
      <svg width="0" height="0" aria-hidden="true">
        <defs>
          <pattern id="refused-pattern" width="6" height="6" patternUnits="userSpaceOnUse">
            <path class="pattern-refused" d="M-1 1l2-2M0 6l6-6M5 7l2-2M-1 5l2 2M0 0l6 6M5 -1l2 2" />
          </pattern>
          <pattern id="delayed-pattern" width="6" height="6" patternUnits="userSpaceOnUse">
            <rect class="pattern-delayed-back" width="6" height="6" />
            <circle class="pattern-delayed" cx="3" cy="3" r="1.3" />
          </pattern>
        </defs>
      </svg>
      <ul>
        {(['admitted', 'delayed', 'refused'] as const).map((kind) => (
          <li key={kind}>
            <svg width="22" height="14" aria-hidden="true">
              <rect class={`lane-${kind}`} x="0.5" y="0.5" width="21" height="13" />
            </svg>
            {kind}
          </li>
        ))}
      </ul>
    </div>
  )
}

interface LaneViewProps {
  readonly algorithm: Algorithm
  readonly span: Span
  readonly limit: TriedLimit
  readonly lane: Lane | undefined
}

export function LaneView({ algorithm, span, limit, lane }: LaneViewProps) {
  return (
    <section class="lane" aria-label={NAMES[algorithm]}>
      <div class="lane-head">
        <h2>{NAMES[algorithm]}</h2>
        {lane !== undefined && <Totals lane={lane} />}
      </div>
      {lane === undefined ? (
        <Loading what="Trying" />
      ) : (
        <Picture lane={lane} span={span} limit={limit} />
      )}
      <p class="lane-said">{lane?.said ?? ''}</p>
    </section>
  )
}

function Totals({ lane }: { readonly lane: Lane }) {
  return (
    <p class="lane-totals">
      <span>
        <b>{count(lane.admitted)}</b> admitted
      </span>
      {lane.delayed > 0 && (
        <span>
          <b>{count(lane.delayed)}</b> delayed
        </span>
      )}
      <span class={lane.refused > 0 ? 'lane-no' : undefined}>
        <b>{count(lane.refused)}</b> refused
      </span>
    </p>
  )
}

interface PictureProps {
  readonly lane: Lane
  readonly span: Span
  readonly limit: TriedLimit
}

const KINDS = ['admitted', 'delayed', 'refused'] as const

function Picture({ lane, span, limit }: PictureProps) {
  const top = Math.max(
    1,
    ...lane.columns.map((each) => each.admitted + each.delayed + each.refused),
  )
  const width = WIDTH / span.columns
  const words = `${count(lane.admitted)} admitted, ${count(lane.delayed)} delayed, ${count(lane.refused)} refused`
  return (
    <svg
      class="lane-picture"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${NAMES[lane.algorithm]}: ${words}`}
    >
      {edgesOf(span, limit).map((x) => (
        <line key={x} class="timeline-edge" x1={x * WIDTH} x2={x * WIDTH} y1="0" y2={HEIGHT} />
      ))}
      {lane.columns.map((column, index) => {
        let from = HEIGHT
        return KINDS.map((kind) => {
          const height = (column[kind] / top) * HEIGHT
          from -= height
          return (
            height > 0 && (
              <rect
                key={`${index} ${kind}`}
                class={`lane-${kind}`}
                x={index * width + GAP / 2}
                y={from}
                width={width - GAP}
                height={height}
              />
            )
          )
        })
      })}
    </svg>
  )
}
