/** Parses how nodes share the counters of a rule, and the fields that depend on it. */
import { ALGORITHM_NAMES, algorithms, canCoordinate, moduleOf } from '../algorithms/index.js'
import { readDuration } from './parse-limit.js'
import { locateLimits } from './located-limits.js'
import {
  reportAt,
  fieldName,
  readBoolean,
  readChoice,
  readNumber,
  readOptional,
  type Located,
} from './reader.js'
import type { Coordination, Rule } from './rule.js'
import type { MapNode, ScalarNode } from './tree.js'

const COORDINATIONS: readonly Coordination[] = ['exact', 'leased', 'local', 'split', 'node']
const MAX_STRANDED = 0.05
export const MAX_STRANDED_MAX = 0.5
const ACCEPTED_MAX_STRANDED = `a number above 0, up to ${MAX_STRANDED_MAX}, or a percentage such as 5%`
const PERCENTAGE = /^(\d{1,3}(?:\.\d{1,15})?) ?%$/
const SYNC_EVERY_MS = 100
const SYNC_EVERY_MS_MIN = 10
const SYNC_EVERY_MS_MAX = 10_000
const ACCEPTED_SYNC_EVERY = 'a duration from 10ms to 10s'

type CoordinationFields = Pick<Rule, 'coordination' | 'maxStranded' | 'syncEveryMs' | 'hedge'>

export function readCoordination(map: Located<MapNode>): CoordinationFields {
  const read = readOptional(map, 'coordination', (field) => readChoice(field, COORDINATIONS))
  // An invalid coordination has no known meaning, so the fields that depend on it are not checked.
  const known = map.node.entries.has('coordination') ? read : 'exact'
  if (known !== undefined) refuseUnmergeable(() => locateLimits(map), known)
  refuseBeside(map, 'maxStranded', 'leased', known)
  refuseBeside(map, 'syncEvery', 'local', known)
  return {
    coordination: known ?? 'exact',
    maxStranded: readOptional(map, 'maxStranded', readMaxStranded) ?? MAX_STRANDED,
    syncEveryMs: readOptional(map, 'syncEvery', readSyncEvery) ?? SYNC_EVERY_MS,
    hedge: readOptional(map, 'hedge', (field) => readHedge(field, known)) ?? false,
  }
}

/** Refuses a field that any other coordination would ignore. */
function refuseBeside(
  map: Located<MapNode>,
  key: string,
  needed: Coordination,
  known: Coordination | undefined,
): void {
  const entry = map.node.entries.get(key)
  if (entry === undefined || known === undefined || known === needed) return
  reportAt(map, 'coordination-conflict', {
    at: entry.at,
    field: fieldName(map, key),
    found: key,
    why: known,
    accepted: `coordination: ${needed}, or no ${key}`,
  })
}

function readMaxStranded(located: Located): number | undefined {
  const { node } = located
  const text = node.kind === 'scalar' && typeof node.value === 'string' ? node.value : ''
  const percent = PERCENTAGE.exec(text)?.[1]
  // Converted as text: 0.1% divided by 100 would differ from a literal 0.001.
  const share =
    percent === undefined ? readNumber(located, ACCEPTED_MAX_STRANDED) : Number(`${percent}e-2`)
  if (share === undefined || (share > 0 && share <= MAX_STRANDED_MAX)) return share
  return reportAt(located, 'bad-number', { accepted: ACCEPTED_MAX_STRANDED })
}

function readSyncEvery(located: Located): number | undefined {
  const ms = readDuration(located)
  if (ms === undefined || (ms >= SYNC_EVERY_MS_MIN && ms <= SYNC_EVERY_MS_MAX)) return ms
  return reportAt(located, 'bad-duration', { accepted: ACCEPTED_SYNC_EVERY })
}

/** Only `exact` supports a hedge: with any other coordination calls do not wait for the store. */
function readHedge(located: Located, known: Coordination | undefined): boolean | undefined {
  const hedge = readBoolean(located)
  if (hedge !== true || known === undefined || known === 'exact') return hedge
  return reportAt(located, 'coordination-conflict', {
    found: 'hedge: true',
    why: known,
    accepted: 'hedge: false here, or coordination: exact',
  })
}

/** Refuses limits that the coordination does not support. */
export function refuseUnmergeable(
  find: () => readonly Located[],
  coordination: Coordination,
): void {
  if (coordination === 'exact') return
  for (const limit of find()) refuseLimit(limit, coordination)
}

function refuseLimit(limit: Located, coordination: Coordination): void {
  const block = limit.node.kind === 'map' ? limit.node.entries.get('block') : undefined
  if (block !== undefined) {
    reportAt(limit, 'coordination-conflict', {
      at: block.at,
      field: fieldName(limit, 'block'),
      found: 'block',
      why: coordination,
      accepted: 'no block here, or coordination: exact',
    })
  }
  const [field, start] = [scalarOf(limit, 'algorithm'), scalarOf(limit, 'start')]
  const algorithm = ALGORITHM_NAMES.find((name) => name === field?.value)
  if (field === undefined || algorithm === undefined) return
  if (!canCoordinate(algorithms[algorithm], coordination)) {
    const others = ALGORITHM_NAMES.filter((name) => canCoordinate(algorithms[name], coordination))
    reportAt(limit, 'coordination-conflict', {
      at: field.at,
      field: fieldName(limit, 'algorithm'),
      found: algorithm,
      why: coordination,
      accepted: `${others.slice(0, -1).join(', ')} or ${others.at(-1)} here, or coordination: exact, split or node`,
    })
    return
  }
  if (start?.value !== 'call') return
  if (canCoordinate(moduleOf({ algorithm, start: 'call' }), coordination)) return
  reportAt(limit, 'coordination-conflict', {
    at: start.at,
    field: fieldName(limit, 'start'),
    found: 'start: call',
    why: coordination,
    accepted: 'start: clock here, or coordination: exact or node',
  })
}

function scalarOf({ node }: Located, key: string): ScalarNode | undefined {
  const field = node.kind === 'map' ? node.entries.get(key)?.value : undefined
  return field?.kind === 'scalar' ? field : undefined
}
