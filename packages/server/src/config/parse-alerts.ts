/** `alerts`: what must not go unseen, and where it is told. */
import {
  complain,
  itemsOf,
  type MapNode,
  readList,
  readOptional,
  readRequired,
  readText,
  type Spot,
} from '@sluice/core/reading'
import type { AlertName, AlertsConfig } from './config.js'
import { hideLongText, readFields, readSection } from './fields.js'
import type { Sources } from './parse-doors.js'
import { type Files, readTokenFile } from './secrets.js'
import { readWebhookUrl } from './urls.js'
import { readDuration, readWord } from './values.js'

export const ALERT_NAMES = [
  'breaker-open',
  'degraded',
  'availability',
  'store-refused',
  'fleet-unknown',
  'store-slow',
  'clock-offset',
  'clock-spread',
  'store-memory',
  'store-evictions',
  'rules-stale',
  'caller-at-zero',
  'refusals-unusual',
  'callers-unusual',
  'upstream-failing',
] as const

export const ALERTS_DEFAULT: AlertsConfig = {
  webhook: undefined,
  runbook: 'docs/guides/runbook.md',
  callerAtZeroMs: 300_000,
  rulesStaleMs: 60_000,
  usualMs: 3_600_000,
  off: [],
}

const FIELDS = ['webhook', 'runbook', 'callerAtZero', 'rulesStale', 'usual', 'off'] as const
const CALLER_AT_ZERO = { least: '1s', most: '24h' }
const RULES_STALE = { least: '1s', most: '24h' }
const USUAL = { least: '1m', most: '168h' }
const RUNBOOK_LENGTH_MAX = 1024
const ACCEPTED_RUNBOOK =
  `where the runbook is, 1 to ${RUNBOOK_LENGTH_MAX} visible characters without #; ` +
  'links add # and the name of the alert'

export function readAlerts(root: Spot<MapNode>, sources: Sources): AlertsConfig {
  const map = readSection(root, 'alerts', FIELDS)
  const duration = (key: (typeof FIELDS)[number], range: typeof USUAL) =>
    readOptional(map, key, (spot) => readDuration(spot, range))
  return {
    webhook: readOptional(map, 'webhook', (spot) => readWebhook(spot, sources)),
    runbook: readOptional(map, 'runbook', readRunbook) ?? ALERTS_DEFAULT.runbook,
    callerAtZeroMs: duration('callerAtZero', CALLER_AT_ZERO) ?? ALERTS_DEFAULT.callerAtZeroMs,
    rulesStaleMs: duration('rulesStale', RULES_STALE) ?? ALERTS_DEFAULT.rulesStaleMs,
    usualMs: duration('usual', USUAL) ?? ALERTS_DEFAULT.usualMs,
    off: readOptional(map, 'off', readOff) ?? ALERTS_DEFAULT.off,
  }
}

function readWebhook(spot: Spot, files: Files): AlertsConfig['webhook'] {
  const map = readFields(spot, ['url', 'secretFile'])
  if (map === undefined) return undefined
  const accepted = 'where alerts are posted to, such as https://alerts.example/sluice'
  const url = readRequired(map, 'url', { accepted, read: readWebhookUrl })
  const secret = readOptional(map, 'secretFile', (field) => readTokenFile(field, files))
  return url === undefined ? undefined : { url, secret }
}

function readRunbook(spot: Spot): string | undefined {
  const text = readText(spot, { accepted: ACCEPTED_RUNBOOK, most: RUNBOOK_LENGTH_MAX })
  if (text === undefined || /^[^\s#\p{C}]+$/u.test(text)) return text
  return complain(spot, 'bad-value', { accepted: ACCEPTED_RUNBOOK })
}

function readOff(spot: Spot): readonly AlertName[] | undefined {
  const list = readList(hideLongText(spot), { of: 'alerts', most: ALERT_NAMES.length })
  if (list === undefined) return undefined
  const names = new Set<AlertName>()
  for (const item of itemsOf({ ...list, report: spot.report })) {
    const name = readWord(item, ALERT_NAMES)
    if (name === undefined) continue
    if (names.has(name)) complain(item, 'duplicate-value', { accepted: 'each once' })
    names.add(name)
  }
  return [...names]
}
