/** The playground: draws traffic and compares the six algorithms on it. */
import type { SimulationView } from '@sluice/client'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { api, redirectIfLoggedOut } from '../api.js'
import { count } from '../format.js'
import { route } from '../router.js'
import '../styles/playground.css'
import { Button, Card, ErrorNote, Page, SelectField, TextField } from '../ui/index.js'
import {
  ALGORITHMS,
  callsOf,
  limitsOf,
  type SimulatedCall,
  PRESETS,
  type Preset,
  SPANS,
  type Span,
  type SimulatedLimit,
} from './playground/calls.js'
import { ResultView, Legend } from './playground/result-view.js'
import { algorithmResult } from './playground/algorithm-result.js'
import { Timeline } from './playground/timeline.js'

/** Dragging sends a request after this pause, and not at every pixel. */
const DEBOUNCE_MS = 150
const FIELD_MAX = 1000

const WINDOWS = [1, 2, 5, 10, 20, 30].map((seconds) => ({
  value: String(seconds),
  label: seconds === 1 ? '1 second' : `${seconds} seconds`,
}))

interface Simulation {
  readonly calls: readonly SimulatedCall[]
  readonly span: Span
  readonly limit: SimulatedLimit
  readonly view: SimulationView
}

export function PlaygroundPage() {
  const [span, setSpan] = useState<Span>(SPANS[1] ?? { seconds: 20, columns: 20 })
  const [limit, setLimit] = useState<SimulatedLimit>(() => limitFromQuery(route.value.query))
  const [preset, setPreset] = useState<Preset | undefined>(PRESETS[2])
  const [rates, setRates] = useState<readonly number[]>(() => PRESETS[2]?.rates(span, limit) ?? [])
  const calls = useMemo(() => callsOf(rates, span), [rates, span])
  const { simulation, error } = useSimulation(calls, span, limit)
  const applyPreset = (next: Preset, at: Span, by: SimulatedLimit) => {
    setPreset(next)
    setRates(next.rates(at, by))
  }
  const changeLimit = (next: SimulatedLimit) => {
    setLimit(next)
    if (preset !== undefined) setRates(preset.rates(span, next))
  }
  const changeSpan = (seconds: string) => {
    const next = SPANS.find((each) => String(each.seconds) === seconds) ?? span
    setSpan(next)
    const [first] = PRESETS
    const nextPreset = preset ?? first
    if (nextPreset !== undefined) applyPreset(nextPreset, next, limit)
  }
  const setColumn = (index: number, rate: number) => {
    setPreset(undefined)
    setRates((old) => old.map((each, at) => (at === index ? rate : each)))
  }
  return (
    <Page
      title="Playground"
      lead="Draw traffic and compare what each algorithm does with the same requests and the same limit."
    >
      <Card>
        <Settings limit={limit} span={span} onLimit={changeLimit} onSpan={changeSpan} />
        <Presets selected={preset} onSelect={(next) => applyPreset(next, span, limit)} />
        <Timeline rates={rates} span={span} limit={limit} onChange={setColumn} />
      </Card>
      {error !== undefined && <ErrorNote error={error} />}
      <Legend />
      <p class="visually-hidden" role="status">
        {simulation === undefined ? '' : `${count(simulation.calls.length)} requests simulated`}
      </p>
      <div class="results">
        {ALGORITHMS.map((algorithm, index) => (
          <ResultView
            key={algorithm}
            algorithm={algorithm}
            span={simulation?.span ?? span}
            limit={simulation?.limit ?? limit}
            result={
              simulation &&
              algorithmResult(
                algorithm,
                simulation.calls,
                simulation.view.trials[index]?.outcomes ?? [],
                simulation,
              )
            }
          />
        ))}
      </div>
    </Page>
  )
}

interface SettingsProps {
  readonly limit: SimulatedLimit
  readonly span: Span
  readonly onLimit: (limit: SimulatedLimit) => void
  readonly onSpan: (seconds: string) => void
}

function Settings({ limit, span, onLimit, onSpan }: SettingsProps) {
  return (
    <div class="play-form">
      <NumberField
        label="Requests"
        value={limit.max}
        onChange={(max) => onLimit({ ...limit, max })}
      />
      <SelectField
        label="per window of"
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
  /** Undefined: the user drew their own traffic. */
  readonly selected: Preset | undefined
  readonly onSelect: (preset: Preset) => void
}

function Presets({ selected, onSelect }: PresetsProps) {
  return (
    <div class="play-presets" role="group" aria-label="Traffic patterns">
      {PRESETS.map((each) => (
        <Button
          key={each.id}
          size="small"
          kind={each === selected ? 'primary' : 'plain'}
          onClick={() => onSelect(each)}
        >
          {each.label}
        </Button>
      ))}
      <span class="soft small">{selected?.description ?? 'Custom traffic.'}</span>
    </div>
  )
}

/** Simulates the calls on the server. The last result stays while the next one loads. */
function useSimulation(calls: readonly SimulatedCall[], span: Span, limit: SimulatedLimit) {
  const [state, setState] = useState<{
    readonly simulation?: Simulation
    readonly error?: unknown
  }>({})
  useEffect(() => {
    let isCurrent = true
    const timer = setTimeout(() => {
      api.simulate({ limits: limitsOf(limit), calls }).then(
        (view) => {
          if (isCurrent) setState({ simulation: { calls, span, limit, view } })
        },
        (error: unknown) => {
          if (!isCurrent || redirectIfLoggedOut(error)) return
          setState(({ simulation }) => ({ ...(simulation && { simulation }), error }))
        },
      )
    }, DEBOUNCE_MS)
    return () => {
      clearTimeout(timer)
      isCurrent = false
    }
  }, [calls, span, limit])
  return state
}

interface NumberFieldProps {
  readonly label: string
  readonly value: number
  readonly onChange: (value: number) => void
}

/** Reports valid numbers only; invalid input stays in the field. */
function NumberField({ label, value, onChange }: NumberFieldProps) {
  const [text, setText] = useState(String(value))
  const isAccepted = (input: string) =>
    /^\d{1,4}$/.test(input) && Number(input) >= 1 && Number(input) <= FIELD_MAX
  return (
    <TextField
      label={label}
      type="number"
      min={1}
      max={FIELD_MAX}
      step={1}
      value={text}
      error={isAccepted(text) ? undefined : `1 to ${count(FIELD_MAX)}`}
      onInput={(input) => {
        setText(input)
        if (isAccepted(input)) onChange(Number(input))
      }}
    />
  )
}

/** Reads a limit from the address: `?max=20&window=5&burst=10`. */
function limitFromQuery(query: URLSearchParams): SimulatedLimit {
  const read = (name: string, fallback: number, upperBound: number) => {
    const value = Number(query.get(name) ?? '')
    return Number.isInteger(value) && value >= 1 && value <= upperBound ? value : fallback
  }
  const max = read('max', 20, FIELD_MAX)
  const windowSeconds = read('window', 5, 30)
  const isOffered = WINDOWS.some(({ value }) => value === String(windowSeconds))
  return { max, windowSeconds: isOffered ? windowSeconds : 5, burst: read('burst', 10, FIELD_MAX) }
}
