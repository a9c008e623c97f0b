/** The result of one algorithm as stacked columns, distinguished by colour and by pattern. */
import { count } from '../../format.js'
import { Loading } from '../../ui/index.js'
import type { Algorithm, Span, SimulatedLimit } from './calls.js'
import { type AlgorithmResult, NAMES } from './algorithm-result.js'
import { windowEdges } from './timeline.js'

const WIDTH = 600
const HEIGHT = 64
const GAP = 2

/** The legend, which also defines the patterns for all charts. */
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
              <rect class={`result-${kind}`} x="0.5" y="0.5" width="21" height="13" />
            </svg>
            {kind}
          </li>
        ))}
      </ul>
    </div>
  )
}

interface ResultViewProps {
  readonly algorithm: Algorithm
  readonly span: Span
  readonly limit: SimulatedLimit
  readonly result: AlgorithmResult | undefined
}

export function ResultView({ algorithm, span, limit, result }: ResultViewProps) {
  return (
    <section class="result" aria-label={NAMES[algorithm]}>
      <div class="result-head">
        <h2>{NAMES[algorithm]}</h2>
        {result !== undefined && <Totals result={result} />}
      </div>
      {result === undefined ? (
        <Loading what="Simulating" />
      ) : (
        <ResultChart result={result} span={span} limit={limit} />
      )}
      <p class="result-summary">{result?.summary ?? ''}</p>
    </section>
  )
}

function Totals({ result }: { readonly result: AlgorithmResult }) {
  return (
    <p class="result-totals">
      <span>
        <b>{count(result.admitted)}</b> admitted
      </span>
      {result.delayed > 0 && (
        <span>
          <b>{count(result.delayed)}</b> delayed
        </span>
      )}
      <span class={result.refused > 0 ? 'result-refusals' : undefined}>
        <b>{count(result.refused)}</b> refused
      </span>
    </p>
  )
}

interface ResultChartProps {
  readonly result: AlgorithmResult
  readonly span: Span
  readonly limit: SimulatedLimit
}

const KINDS = ['admitted', 'delayed', 'refused'] as const

function ResultChart({ result, span, limit }: ResultChartProps) {
  const top = Math.max(
    1,
    ...result.columns.map((each) => each.admitted + each.delayed + each.refused),
  )
  const width = WIDTH / span.columns
  const totals = `${count(result.admitted)} admitted, ${count(result.delayed)} delayed, ${count(result.refused)} refused`
  return (
    <svg
      class="result-chart"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${NAMES[result.algorithm]}: ${totals}`}
    >
      {windowEdges(span, limit).map((x) => (
        <line key={x} class="timeline-edge" x1={x * WIDTH} x2={x * WIDTH} y1="0" y2={HEIGHT} />
      ))}
      {result.columns.map((column, index) => {
        let bottom = HEIGHT
        return KINDS.map((kind) => {
          const height = (column[kind] / top) * HEIGHT
          bottom -= height
          return (
            height > 0 && (
              <rect
                key={`${index} ${kind}`}
                class={`result-${kind}`}
                x={index * width + GAP / 2}
                y={bottom}
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
