/** Formats the details of an alert: labels, local times, sizes and durations. */
import type { AlertView } from '@sluice/client'
import { bytes, clockTime, count, dateTime, duration, millis, timeOf } from '../../format.js'

type Value = AlertView['details'][string]

interface Detail {
  readonly name: string
  readonly text: string
}

const LABELS: Readonly<Record<string, string>> = {
  zeroSince: 'Exhausted since',
  lastRefusedCall: 'Last refused request',
  ageSeconds: 'Unconfirmed for',
  degraded: 'Decided on store failure',
  rules: 'Rules affected',
  affected: 'Examples',
  opened: 'Times opened',
  offsetMs: 'Clock offset',
  errorMs: 'Measurement error',
  spreadMs: 'Clock spread',
  usedBytes: 'Memory used',
  maxBytes: 'Memory limit',
  perSecond: 'Refusals per second',
  usualPerSecond: 'Baseline per second',
  callers: 'Callers in 5 minutes',
  usual: 'Baseline',
  shed: 'Shed requests',
  shedBy: 'Shed by',
}

/** Older times are shown with their date. */
const DAY_MS = 86_400_000
const ISO_TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/

export function alertDetails(details: AlertView['details'], nowMs: number): readonly Detail[] {
  return Object.entries(details).map(([name, value]) => ({
    name: LABELS[name] ?? labelFromName(name),
    text: valueText(name, value, nowMs),
  }))
}

function valueText(name: string, value: Value, nowMs: number): string {
  if (typeof value === 'number') return numberText(name, value)
  if (typeof value !== 'string') return listText(name, value)
  if (!ISO_TIME.test(value)) return value
  return nowMs - timeOf(value) < DAY_MS ? clockTime(value) : dateTime(value)
}

function numberText(name: string, value: number): string {
  if (name.endsWith('Bytes')) return bytes(value)
  if (name.endsWith('Ms')) return millis(value)
  if (name.endsWith('Seconds')) return duration(value * 1000)
  return Number.isInteger(value) ? count(value) : String(value)
}

/** A rule that counts by no attribute has one counter for all callers. */
const listText = (name: string, values: readonly string[]): string =>
  name === 'caller' && values.length === 0 ? 'all callers' : values.join(', ')

/** `someName` as `Some name`, for details without a label. */
const labelFromName = (name: string): string => {
  const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return `${words.slice(0, 1).toUpperCase()}${words.slice(1)}`
}
