/** Reads the section `alerts` of the configuration. */
import {
  reportAt,
  itemsOf,
  type MapNode,
  readList,
  readOptional,
  readRequired,
  readText,
  type Located,
} from '@sluice/core/config-reader'
import { ALERT_NAMES, type AlertName } from '../observability/alerts/alert-kinds.js'
import type { AlertsConfig } from './config.js'
import { hideLongText, readFields, readSection } from './fields.js'
import type { ConfigSources } from './parse-listeners.js'
import { type FileAccess, readTokenFile } from './secrets.js'
import { readWebhookUrl } from './outbound-urls.js'
import { readDuration, readWord } from './values.js'

export const ALERTS_DEFAULT: AlertsConfig = {
  webhook: undefined,
  runbook: 'docs/guides/runbook.md',
  callerExhaustedMs: 300_000,
  rulesStaleMs: 60_000,
  baselineMs: 3_600_000,
  off: [],
}

const FIELDS = ['webhook', 'runbook', 'callerExhausted', 'rulesStale', 'baseline', 'off'] as const
/** Keys of earlier releases. They are refused with the name that replaces them. */
const RENAMED = { callerAtZero: 'callerExhausted', usual: 'baseline' }
const CALLER_EXHAUSTED = { least: '1s', most: '24h' }
const RULES_STALE = { least: '1s', most: '24h' }
const BASELINE = { least: '1m', most: '168h' }
const RUNBOOK_LENGTH_MAX = 1024
const ACCEPTED_RUNBOOK =
  `where the runbook is, 1 to ${RUNBOOK_LENGTH_MAX} visible characters without #; ` +
  'links add # and the name of the alert'

export function readAlerts(root: Located<MapNode>, sources: ConfigSources): AlertsConfig {
  const map = readSection(root, 'alerts', FIELDS, RENAMED)
  const duration = (key: (typeof FIELDS)[number], range: typeof BASELINE) =>
    readOptional(map, key, (located) => readDuration(located, range))
  return {
    webhook: readOptional(map, 'webhook', (located) => readWebhook(located, sources)),
    runbook: readOptional(map, 'runbook', readRunbook) ?? ALERTS_DEFAULT.runbook,
    callerExhaustedMs:
      duration('callerExhausted', CALLER_EXHAUSTED) ?? ALERTS_DEFAULT.callerExhaustedMs,
    rulesStaleMs: duration('rulesStale', RULES_STALE) ?? ALERTS_DEFAULT.rulesStaleMs,
    baselineMs: duration('baseline', BASELINE) ?? ALERTS_DEFAULT.baselineMs,
    off: readOptional(map, 'off', readOff) ?? ALERTS_DEFAULT.off,
  }
}

function readWebhook(located: Located, files: FileAccess): AlertsConfig['webhook'] {
  const map = readFields(located, ['url', 'secretFile'])
  if (map === undefined) return undefined
  const accepted = 'where alerts are posted to, such as https://alerts.example/sluice'
  const url = readRequired(map, 'url', { accepted, read: readWebhookUrl })
  const secret = readOptional(map, 'secretFile', (field) => readTokenFile(field, files))
  return url === undefined ? undefined : { url, secret }
}

function readRunbook(located: Located): string | undefined {
  const text = readText(located, { accepted: ACCEPTED_RUNBOOK, most: RUNBOOK_LENGTH_MAX })
  if (text === undefined || /^[^\s#\p{C}]+$/u.test(text)) return text
  return reportAt(located, 'bad-value', { accepted: ACCEPTED_RUNBOOK })
}

function readOff(located: Located): readonly AlertName[] | undefined {
  const list = readList(hideLongText(located), { items: 'alerts', most: ALERT_NAMES.length })
  if (list === undefined) return undefined
  const names = new Set<AlertName>()
  for (const item of itemsOf({ ...list, report: located.report })) {
    const name = readWord(item, ALERT_NAMES)
    if (name === undefined) continue
    if (names.has(name)) reportAt(item, 'duplicate-value', { accepted: 'each once' })
    names.add(name)
  }
  return [...names]
}
