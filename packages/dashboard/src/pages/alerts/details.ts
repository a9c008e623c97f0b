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
const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/

export function detailsOf(details: AlertView['details'], nowMs: number): readonly Detail[] {
  return Object.entries(details).map(([name, value]) => ({
    name: LABELS[name] ?? wordsOf(name),
    text: textOf(name, value, nowMs),
  }))
}

function textOf(name: string, value: Value, nowMs: number): string {
  if (typeof value === 'number') return numberOf(name, value)
  if (typeof value !== 'string') return listOf(name, value)
  if (!TIME.test(value)) return value
  return nowMs - timeOf(value) < DAY_MS ? clockTime(value) : dateTime(value)
}

function numberOf(name: string, value: number): string {
  if (name.endsWith('Bytes')) return bytes(value)
  if (name.endsWith('Ms')) return millis(value)
  if (name.endsWith('Seconds')) return duration(value * 1000)
  return Number.isInteger(value) ? count(value) : String(value)
}

/** A rule that counts by nothing has one counter for all. */
const listOf = (name: string, values: readonly string[]): string =>
  name === 'caller' && values.length === 0 ? 'everybody together' : values.join(', ')

/** `someName` as `Some name`, for details that came later than this page. */
const wordsOf = (name: string): string => {
  const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return `${words.slice(0, 1).toUpperCase()}${words.slice(1)}`
}
