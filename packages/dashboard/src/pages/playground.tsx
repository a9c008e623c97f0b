/** A burst that is dragged, and what each of the six algorithms makes of it. */
import type { TrialView } from '@sluice/client'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { api, leaveIfOut } from '../api.js'
import { count } from '../format.js'
import { route } from '../router.js'
import '../styles/playground.css'
import { Button, Card, ErrorNote, Page, SelectField, TextField } from '../ui/index.js'
import {
  ALGORITHMS,
  callsOf,
  limitsOf,
  type MadeCall,
  PRESETS,
  type Preset,
  SPANS,
  type Span,
  type TriedLimit,
} from './playground/calls.js'
import { LaneView, Legend } from './playground/lane-view.js'
import { laneOf } from './playground/lanes.js'
import { Timeline } from './playground/timeline.js'

/** Long enough that dragging asks a few times, and not at every pixel. */
const PAUSE_MS = 150
const MAX_MAX = 1000

const WINDOWS = [1, 2, 5, 10, 20, 30].map((seconds) => ({
  value: String(seconds),
  label: seconds === 1 ? '1 second' : `${seconds} seconds`,
}))

interface Tried {
  readonly calls: readonly MadeCall[]
  readonly span: Span
  readonly limit: TriedLimit
  readonly view: TrialView
}

export function PlaygroundPage() {
  const [span, setSpan] = useState<Span>(SPANS[1] ?? { seconds: 20, columns: 20 })
  const [limit, setLimit] = useState<TriedLimit>(() => limitOf(route.value.query))
  const [preset, setPreset] = useState<Preset | undefined>(PRESETS[2])
  const [rates, setRates] = useState<readonly number[]>(() => PRESETS[2]?.rates(span, limit) ?? [])
  const calls = useMemo(() => callsOf(rates, span), [rates, span])
  const { tried, error } = useTrial(calls, span, limit)
  const take = (next: Preset, at: Span, by: TriedLimit) => {
    setPreset(next)
    setRates(next.rates(at, by))
  }
  const changeLimit = (next: TriedLimit) => {
    setLimit(next)
    if (preset !== undefined) setRates(preset.rates(span, next))
  }
  const changeSpan = (seconds: string) => {
    const next = SPANS.find((each) => String(each.seconds) === seconds) ?? span
    setSpan(next)
    const [first] = PRESETS
    const kept = preset ?? first
    if (kept !== undefined) take(kept, next, limit)
  }
  const setColumn = (index: number, rate: number) => {
    setPreset(undefined)
    setRates((old) => old.map((each, at) => (at === index ? rate : each)))
  }
  return (
    <Page
      title="Playground"
      lead="Draw how somebody calls. Below is what each algorithm would do with the same calls and the same limit."
    >
      <Card>
        <Settings limit={limit} span={span} onLimit={changeLimit} onSpan={changeSpan} />
        <Presets chosen={preset} onTake={(next) => take(next, span, limit)} />
        <Timeline rates={rates} span={span} limit={limit} onChange={setColumn} />
      </Card>
      {error !== undefined && <ErrorNote error={error} />}
      <Legend />
      <p class="unseen" role="status">
        {tried === undefined ? '' : `${count(tried.calls.length)} calls tried`}
      </p>
      <div class="lanes">
        {ALGORITHMS.map((algorithm, index) => (
          <LaneView
            key={algorithm}
            algorithm={algorithm}
            span={tried?.span ?? span}
            limit={tried?.limit ?? limit}
            lane={
              tried &&
              laneOf(algorithm, tried.calls, tried.view.trials[index]?.outcomes ?? [], tried)
            }
          />
        ))}
      </div>
    </Page>
  )
}

interface SettingsProps {
  readonly limit: TriedLimit
  readonly span: Span
  readonly onLimit: (limit: TriedLimit) => void
  readonly onSpan: (seconds: string) => void
}

function Settings({ limit, span, onLimit, onSpan }: SettingsProps) {
  return (
    <div class="play-form">
      <NumberField label="Calls" value={limit.max} onChange={(max) => onLimit({ ...limit, max })} />
      <SelectField
        label="in a window of"
        value={String(limit.windowSeconds)}
        options={WINDOWS}
        onChange={(value) => onLimit({ ...limit, windowSeconds: Number(value) })}
      />
      <NumberField
        label="Burst or queue"
        value={limit.burst}
        onChange={(burst) => onLimit({ ...limit, burst })}
      />
      <SelectField
        label="Time shown"
        value={String(span.seconds)}
        options={SPANS.map(({ seconds }) => ({ value: String(seconds), label: `${seconds} s` }))}
        onChange={onSpan}
      />
    </div>
  )
}

interface PresetsProps {
  /** Undefined: somebody drew another. */
  readonly chosen: Preset | undefined
  readonly onTake: (preset: Preset) => void
}

function Presets({ chosen, onTake }: PresetsProps) {
  return (
    <div class="play-presets" role="group" aria-label="Ways to call">
      {PRESETS.map((each) => (
        <Button
          key={each.id}
          size="small"
          kind={each === chosen ? 'primary' : 'plain'}
          onClick={() => onTake(each)}
        >
          {each.label}
        </Button>
      ))}
      <span class="soft small">{chosen?.what ?? 'As you drew it.'}</span>
    </div>
  )
}

/** What the server made of the calls; the last answer stays while the next is on its way. */
function useTrial(calls: readonly MadeCall[], span: Span, limit: TriedLimit) {
  const [state, setState] = useState<{ readonly tried?: Tried; readonly error?: unknown }>({})
  const latest = useRef(0)
  useEffect(() => {
    const mine = ++latest.current
    const timer = setTimeout(() => {
      api.trial({ limits: limitsOf(limit), calls }).then(
        (view) => {
          if (mine === latest.current) setState({ tried: { calls, span, limit, view } })
        },
        (error: unknown) => {
          if (mine !== latest.current || leaveIfOut(error)) return
          setState(({ tried }) => ({ ...(tried && { tried }), error }))
        },
      )
    }, PAUSE_MS)
    return () => {
      clearTimeout(timer)
      latest.current++
    }
  }, [calls, span, limit])
  return state
}

interface NumberFieldProps {
  readonly label: string
  readonly value: number
  readonly onChange: (value: number) => void
}

/** Only good numbers leave it; what is typed stays as it is. */
function NumberField({ label, value, onChange }: NumberFieldProps) {
  const [text, setText] = useState(String(value))
  const isGood = (given: string) =>
    /^\d{1,4}$/.test(given) && Number(given) >= 1 && Number(given) <= MAX_MAX
  return (
    <TextField
      label={label}
      type="number"
      min={1}
      max={MAX_MAX}
      step={1}
      value={text}
      error={isGood(text) ? undefined : `1 to ${count(MAX_MAX)}`}
      onInput={(given) => {
        setText(given)
        if (isGood(given)) onChange(Number(given))
      }}
    />
  )
}

/** A link may bring a limit: `?max=20&window=5&burst=10`. */
function limitOf(query: URLSearchParams): TriedLimit {
  const read = (name: string, otherwise: number, most: number) => {
    const value = Number(query.get(name) ?? '')
    return Number.isInteger(value) && value >= 1 && value <= most ? value : otherwise
  }
  const max = read('max', 20, MAX_MAX)
  const asked = read('window', 5, 30)
  const isOffered = WINDOWS.some(({ value }) => value === String(asked))
  return { max, windowSeconds: isOffered ? asked : 5, burst: read('burst', 10, MAX_MAX) }
}
