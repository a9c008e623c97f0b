/** Parses `decisionLog`: whether decisions are logged, and of which share of callers. */
import {
  reportAt,
  fieldOf,
  type MapNode,
  readNumber,
  readOptional,
  readRequired,
  type Located,
} from '@sluice/core/config-reader'
import type { DecisionLogConfig } from './config.js'
import { readFields } from './fields.js'
import { readFileName, readInteger } from './values.js'

const SAMPLE_DEFAULT = 0.01
/** With smaller shares, most logs would contain no caller. */
const SAMPLE_MIN = 0.000_001
const MAX_BYTES = { least: 65_536, most: 2 ** 40 }
const MAX_BYTES_DEFAULT = 64 * 1024 * 1024
const KEEP = { least: 1, most: 1000 }
const KEEP_DEFAULT = 5

export function readDecisionLog(
  root: Located<MapNode>,
  folder: string,
): DecisionLogConfig | undefined {
  const located = fieldOf(root, 'decisionLog')
  const map = located && readFields(located, ['file', 'sample', 'maxBytes', 'keep'])
  if (map === undefined) return undefined
  const file = readRequired(map, 'file', {
    accepted:
      'the name of the file that decisions are written to; to write none, leave decisionLog out',
    read: (field) => readFileName(field, folder),
  })
  const sample = readOptional(map, 'sample', readShare)
  const maxBytes = readOptional(map, 'maxBytes', (field) => readInteger(field, MAX_BYTES))
  const keep = readOptional(map, 'keep', (field) => readInteger(field, KEEP))
  if (file === undefined) return undefined
  return {
    file,
    sample: sample ?? SAMPLE_DEFAULT,
    maxBytes: maxBytes ?? MAX_BYTES_DEFAULT,
    keep: keep ?? KEEP_DEFAULT,
  }
}

function readShare(located: Located): number | undefined {
  const accepted = `a number from ${SAMPLE_MIN} to 1, the share of callers`
  const share = readNumber(located, accepted)
  if (share === undefined || (share >= SAMPLE_MIN && share <= 1)) return share
  return reportAt(located, 'bad-number', { accepted })
}
