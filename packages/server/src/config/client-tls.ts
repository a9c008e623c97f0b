/** Parses `tls` of a section that connects to Redis, Postgres or a control plane. */
import { type MapNode, readOptional, reportAt, type Located } from '@sluice/core/config-reader'
import type { ClientTlsFiles } from './config.js'
import { readFields } from './fields.js'
import { readFileName, readName } from './values.js'

const SERVERNAME_LENGTH_MAX = 253
const FIELDS: readonly string[] = ['ca', 'cert', 'key', 'servername']

/** The named files and their places; the section checks whether they fit together. */
export interface ParsedClientTls {
  readonly files: ClientTlsFiles
  readonly map: Located<MapNode>
}

export function readClientTls(
  located: Located,
  { folder, peer }: { readonly folder: string; readonly peer: string },
): ParsedClientTls | undefined {
  const map = readFields(located, FIELDS)
  if (map === undefined) return undefined
  const file = (key: string) => readOptional(map, key, (field) => readFileName(field, folder))
  const files = {
    ca: file('ca'),
    cert: file('cert'),
    key: file('key'),
    servername: readOptional(map, 'servername', (field) =>
      readName(field, `the name in the certificate of ${peer}`, SERVERNAME_LENGTH_MAX),
    ),
  }
  return { files, map }
}

/** Reports a certificate without its key, or a key without its certificate. */
export function requirePair({ map }: ParsedClientTls): void {
  for (const [one, other] of [
    ['cert', 'key'],
    ['key', 'cert'],
  ] as const) {
    if (!map.node.entries.has(one) || map.node.entries.has(other)) continue
    const accepted = 'the name of a PEM file; a certificate needs both cert and key'
    reportAt(map, 'missing-field', { field: `${map.field}.${other}`, found: 'nothing', accepted })
  }
}
