/** The details of an alert as people read them: words for names, local times, sizes, spans. */
import type { AlertView } from '@sluice/client'
import { bytes, clockTime, count, dateTime, duration, millis, timeOf } from '../../format.js'

type Value = AlertView['details'][string]

interface Detail {
  readonly name: string
  readonly text: string
}

const LABELS: Readonly<Record<string, string>> = {
  zeroSince: 'At zero since',
  lastRefusedCall: 'Last refused',
  ageSeconds: 'Not confirmed for',
  degraded: 'Decided by posture',
  rules: 'Rules decided by posture',
  affected: 'Some of them',
  opened: 'Times opened',
  offsetMs: 'Off by',
  errorMs: 'Known within',
  spreadMs: 'Apart by',
  usedBytes: 'Memory used',
  maxBytes: 'Memory at most',
  perSecond: 'Refusals a second',
  usualPerSecond: 'Usually',
  callers: 'Callers in five minutes',
  usual: 'Usually',
}

/** A day has passed: the time of day alone would be another one. */
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

/** A rule that counts by nothing has one counter for all. */
const listText = (name: string, values: readonly string[]): string =>
  name === 'caller' && values.length === 0 ? 'everybody together' : values.join(', ')

/** `someName` as `Some name`, for details that came later than this page. */
const labelFromName = (name: string): string => {
  const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return `${words.slice(0, 1).toUpperCase()}${words.slice(1)}`
}
