/** Parsers for the types of values in a configuration. */
import { resolve } from 'node:path'
import {
  reportAt,
  itemsOf,
  parseDuration,
  readChoice,
  type MapNode,
  readList,
  readNumber,
  readOptional,
  readRequired,
  readText,
  type Located,
} from '@sluice/core/config-reader'
import type { ServerTlsFiles, TlsFiles } from './config.js'
import { hideLongText, readFields } from './fields.js'

/** The bounds of `workers`, in the file and in its variable. */
export const WORKERS = { least: 1, most: 64 }

const FILE_NAME_LENGTH_MAX = 4096
const ACCEPTED_FILE = `the name of a file, 1 to ${FILE_NAME_LENGTH_MAX} characters`

export function readInteger(
  located: Located,
  { least, most }: { readonly least: number; readonly most: number },
): number | undefined {
  const accepted = `a whole number from ${least} to ${most}`
  const number = readNumber(located, accepted)
  const isGood = Number.isInteger(number) && (number ?? 0) >= least && (number ?? 0) <= most
  if (number === undefined || isGood) return number
  return reportAt(located, 'bad-number', { accepted })
}

/** One of a set of words. */
export function readWord<T extends string>(
  located: Located,
  choices: readonly T[],
  accepted?: string,
): T | undefined {
  return readChoice(hideLongText(located), choices, accepted)
}

/** One of a set of numbers. */
export function readStatus<T extends number>(
  located: Located,
  choices: readonly T[],
): T | undefined {
  const accepted = choices.join(' or ')
  const shown = hideLongText(located)
  const number = readNumber(shown, accepted)
  if (number === undefined) return undefined
  return (
    choices.find((choice) => choice === number) ?? reportAt(shown, 'unknown-value', { accepted })
  )
}

/** A duration in milliseconds. */
export function readDuration(
  located: Located,
  { least, most }: { readonly least: string; readonly most: string },
): number | undefined {
  const accepted = `a duration from ${least} to ${most}, a whole number and ms, s, m or h`
  const text = readText(located, { accepted, most: Number.POSITIVE_INFINITY })
  if (text === undefined) return undefined
  const ms = parseDuration(text)
  const leastMs = parseDuration(least) ?? 0
  const mostMs = parseDuration(most) ?? 0
  if (ms !== undefined && ms >= leastMs && ms <= mostMs) return ms
  return reportAt(located, 'bad-duration', { accepted })
}

/** Text that must not be empty: a name, an issuer, a claim. */
export function readName(located: Located, what: string, most: number): string | undefined {
  const accepted = `${what}, 1 to ${most} characters`
  const text = readText(located, { accepted, most })
  return text === '' ? reportAt(located, 'bad-value', { accepted }) : text
}

/** The absolute name of a file. Whether it exists is found when it is opened. */
export function readFileName(located: Located, folder: string): string | undefined {
  const text = readText(located, { accepted: ACCEPTED_FILE, most: FILE_NAME_LENGTH_MAX })
  if (text === undefined) return undefined
  // The system would end the name at a zero character, and open another file.
  if (text === '' || text.includes('\0')) {
    return reportAt(located, 'bad-value', { accepted: ACCEPTED_FILE })
  }
  return resolve(folder, text)
}

export function readTls(located: Located, folder: string): TlsFiles | undefined {
  const map = readFields(located, ['cert', 'key'])
  return map && readTlsPair(map, folder)
}

/** The certificate and key of a map that may have other fields. */
function readTlsPair(map: Located<MapNode>, folder: string): TlsFiles | undefined {
  const readPart = (key: 'cert' | 'key') =>
    readRequired(map, key, {
      accepted: 'the name of a PEM file; TLS needs both cert and key',
      read: (field) => readFileName(field, folder),
    })
  const cert = readPart('cert')
  const key = readPart('key')
  return cert === undefined || key === undefined ? undefined : { cert, key }
}

/** TLS of a listener whose clients may need certificates. */
export function readServerTls(located: Located, folder: string): ServerTlsFiles | undefined {
  const map = readFields(located, ['cert', 'key', 'clientCa'])
  if (map === undefined) return undefined
  const clientCa = readOptional(map, 'clientCa', (field) => readFileName(field, folder))
  const pair = readTlsPair(map, folder)
  return pair && { ...pair, clientCa }
}

/** The parsed items of a list, without invalid ones. */
export function readItems<T>(
  located: Located,
  shape: { readonly items: string; readonly most: number },
  read: (item: Located) => T | undefined,
): readonly T[] | undefined {
  const list = readList(hideLongText(located), shape)
  if (list === undefined) return undefined
  return itemsOf({ ...list, report: located.report }).flatMap((item) => read(item) ?? [])
}
