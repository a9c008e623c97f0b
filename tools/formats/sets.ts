/**
 * The sets of `conformance/formats`: one folder for each release that introduced a stored format,
 * named by that release.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const FOLDER = fileURLToPath(new URL('../../conformance/formats', import.meta.url))
const NAME = /^[0-9]+\.[0-9]+\.[0-9]+$/

/** The names of all sets, the oldest first. */
export const FORMAT_SETS: readonly string[] = readdirSync(FOLDER)
  .filter((name) => NAME.test(name))
  .toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true }))

/** The set of the format that is written now; all others are only read. */
export const NEWEST_SET: string = FORMAT_SETS.at(-1) ?? ''

export function setFolder(set: string): string {
  return join(FOLDER, set)
}

export function readSetFile<Content>(set: string, file: string): Content {
  return JSON.parse(readFileSync(join(setFolder(set), file), 'utf8')) as Content
}

/** Throws if the set exists: a set is never changed once it was written. */
export function makeSetFolder(set: string): string {
  if (!NAME.test(set)) {
    throw new Error(`the name of a set: found "${set}"; accepted: a release, such as 0.1.0`)
  }
  const folder = setFolder(set)
  if (existsSync(folder)) {
    throw new Error(`conformance/formats/${set}: found a set; accepted: a name without one`)
  }
  mkdirSync(folder)
  return folder
}
