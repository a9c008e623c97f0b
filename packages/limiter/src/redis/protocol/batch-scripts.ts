/**
 * The scripts that decide a batch, put together from the files of `src/lua`. Comments and
 * indentation stay behind: a Redis that lost a script is sent all of it.
 *
 * Every run of a script makes its functions anew, and in Redis's Lua that costs more the more names
 * they share. So in the script of all batches, what not every batch needs is a function that makes
 * it; a take that is alone has a script of its own for each algorithm; and both try one function
 * first that knows only how a token bucket or a window admits, which nearly all takes need.
 */
import { createHash } from 'node:crypto'
import {
  type AlgorithmName,
  type Algorithm,
  type Limit,
  type StateLayout,
  STORED_ALGORITHMS,
} from '@sluice/core'
import { luaText } from './lua-text.js'

export interface BatchScript {
  readonly source: string
  /** The words of a command that run it by its hash, as they go over the wire. */
  readonly byHash: Uint8Array
}

function stripLua(text: string): string {
  const lines = text.split('\n').map((line) => line.trim())
  return lines.filter((line) => line !== '' && !line.startsWith('--')).join('\n')
}

/** In front of the fields of a stored state: the format in a byte, and until when it is kept. */
const STORED_HEAD = { format: '>BI4', bytes: 5 }

/** The struct format of a stored state, of its usual size or the wide one. */
function structOf({ fields }: StateLayout<unknown>, size: 'bytes' | 'wideBytes'): string {
  return STORED_HEAD.format + fields.map((field) => `I${field[size]}`).join('')
}

function storedBytes({ fields }: StateLayout<unknown>, size: 'bytes' | 'wideBytes'): number {
  return fields.reduce((sum, field) => sum + field[size], STORED_HEAD.bytes)
}

/** The constants of a layout that `value.lua` and the replies read. */
function luaLayout(layout: StateLayout<unknown>): string {
  const narrowBelow = 256 ** (layout.fields[2]?.bytes ?? 4)
  return `local NUMBERS, NARROW, NARROW_SIZE, NARROW_BELOW =
${layout.fields.length}, '${structOf(layout, 'bytes')}', ${storedBytes(layout, 'bytes')}, ${narrowBelow}
local WIDE, WIDE_SIZE = '${structOf(layout, 'wideBytes')}', ${storedBytes(layout, 'wideBytes')}
`
}

type FolderName = Algorithm<unknown>['lua']

/** The folder of `src/lua` that has an algorithm's arithmetic, and the algorithms that share it. */
interface LuaFolder {
  readonly name: FolderName
  readonly formats: readonly number[]
  /** Undefined: states are lists, and `records.lua` of the folder says how they are stored. */
  readonly layout: StateLayout<unknown> | undefined
}

const FOLDERS: readonly LuaFolder[] = [...new Set(STORED_ALGORITHMS.map(({ lua }) => lua))].map(
  (name) => {
    const sharing = STORED_ALGORITHMS.filter(({ lua }) => lua === name)
    return { name, layout: sharing[0]?.layout, formats: sharing.map(({ format }) => format) }
  },
)

/** Has its divisions written out, because most takes are of it. */
const WITHOUT_NUMBERS: FolderName = 'token-bucket'

function numbersFor({ name }: LuaFolder): string {
  return name === WITHOUT_NUMBERS ? '' : luaText('numbers')
}

/** An algorithm as far as takes need it, and how its states are stored. */
function takeOf({ name, layout }: LuaFolder): string {
  const take = luaText(`${name}/take`)
  if (layout === undefined) return luaText(`${name}/records`) + take
  return luaLayout(layout) + take + luaText('value')
}

/** The whole algorithm; ends with a `return` of its functions. */
function algorithmText(folder: LuaFolder): string {
  return takeOf(folder) + luaText(`${folder.name}/verbs`)
}

function batchScript(...sources: readonly string[]): BatchScript {
  const source = `${sources.map(stripLua).join('\n')}\n`
  const sha = createHash('sha1').update(source).digest('hex')
  return { source, byHash: Buffer.from(`$7\r\nEVALSHA\r\n$40\r\n${sha}\r\n`) }
}

function ifFormat(folder: LuaFolder): string {
  const condition = folder.formats.map((format) => `format == ${format}`).join(' or ')
  return `if ${condition} then\n${algorithmText(folder)}\nend`
}

const [withoutNumbers, withNumbers] = [true, false].map((isWithout) =>
  FOLDERS.filter(({ name }) => (name === WITHOUT_NUMBERS) === isWithout)
    .map(ifFormat)
    .join('\n'),
)

const MAKE_ALGORITHM = `local function makeAlgorithm(format)
${withoutNumbers}
${luaText('numbers')}
${withNumbers}
end`

const MAKE_PACKED = `local function makePacked(request, now, SPAN_US)
${luaText('packed')}
end`

const MAKE_VERBS = `local function makeVerbs(makeAlgorithm, algorithms, request, limits, now, reply,
values, writes, spoiled, isPacked, valueCount, keysBefore)
${luaText('span')}
${luaText('answer')}
${luaText('states')}
local function makeMetered(now, steps, read, keep, say)
${luaText('metered')}
end
${luaText('run-op')}
end`

/** How much of a list is read at once: a log of 256 records, or the places of 114 nodes. */
const LIST_READ_SIZE = 2068

/** The algorithms that have an `admit.lua`. */
const ADMITTING: readonly FolderName[] = [
  'token-bucket',
  'fixed-window',
  'caller-window',
  'calendar-window',
]

const ADMIT_ALGORITHMS = ADMITTING.map((name) => luaText(`${name}/admit`)).join('\n')

const BATCH_TEXTS = [
  `local LIST_READ_SIZE = ${LIST_READ_SIZE}`,
  MAKE_ALGORITHM,
  MAKE_PACKED,
  MAKE_VERBS,
  ADMIT_ALGORITHMS,
  luaText('span'),
  luaText('request'),
  luaText('counters'),
  luaText('admit'),
  luaText('batch'),
]

/** Decides any batch. */
export const BATCH = batchScript(...BATCH_TEXTS)

const [MARK_FORMAT = 0] = FOLDERS.find(({ name }) => name === 'caller-window')?.formats ?? []

/**
 * Decides a batch of one settle: tries what nearly all of them need, before any other function is
 * created.
 */
const SETTLE_ONE = batchScript(
  `do\nlocal MARK_FORMAT = ${MARK_FORMAT}`,
  ADMIT_ALGORITHMS,
  luaText('span'),
  luaText('settle-request'),
  luaText('admit'),
  luaText('settle-one'),
  'end',
  ...BATCH_TEXTS,
)

/** What `admit` finds of a take. */
const FOUND = 'local kept, left, resetMs, at, expires, a, b, c'
/** How the algorithms that have an `admit.lua` call it. */
const ADMIT_CALLS: Partial<Record<FolderName, string>> = {
  'token-bucket': 'admitBucket(value, format, capacity, lent, p, q, tickUs, amount, now)',
  'fixed-window': 'admitWindow(value, format, max, windowUs, amount, now)',
  'caller-window': 'admitCallerWindow(value, format, max, windowUs, amount, now)',
  'calendar-window': 'admitCalendarWindow(value, format, max, q, tickUs, amount, now)',
}

/** Decides a batch of one take; tries `admit` first where the algorithm has it. */
function takeOne(folder: LuaFolder, layout: StateLayout<unknown>): BatchScript {
  const { name } = folder
  const call = ADMIT_CALLS[name]
  const [span, head, rest] = [luaText('span'), luaText('take-one'), luaText('take-one-any')]
  const algorithm = [numbersFor(folder), takeOf(folder)]
  if (call === undefined) return batchScript(...algorithm, span, luaText('answer'), head, rest)
  const admit = `local NARROW = '${structOf(layout, 'bytes')}'\n${FOUND} = ${call}`
  const admitted = luaText('take-one-admitted')
  const first = [luaText(`${name}/admit`), span, head, admit, admitted]
  return batchScript(...first, ...algorithm, luaText('answer'), rest)
}

/** All of an algorithm, apart from another one in the same script. */
function makeOther(folder: LuaFolder): string {
  return `local function makeOther()\n${numbersFor(folder)}\n${algorithmText(folder)}\nend`
}

/** The algorithm of the second limit in the script that decides two. */
const SECOND: AlgorithmName = 'sliding-window-counter'

function takeTwo(folder: LuaFolder): BatchScript {
  const others = FOLDERS.filter(({ name }) => name === SECOND).map(makeOther)
  const first = [numbersFor(folder), takeOf(folder)]
  return batchScript(...others, ...first, luaText('span'), luaText('answer'), luaText('take-two'))
}

function giveOne(folder: LuaFolder): BatchScript {
  return batchScript(makeOther(folder), luaText('span'), luaText('give-one'))
}

/** The scripts for a call that is alone, by format. Lists have none. */
const TAKE_ONE: (BatchScript | undefined)[] = []
const TAKE_TWO: (BatchScript | undefined)[] = []
const GIVE_ONE: (BatchScript | undefined)[] = []
for (const folder of FOLDERS) {
  if (folder.layout === undefined) continue
  const [one, two, give] = [takeOne(folder, folder.layout), takeTwo(folder), giveOne(folder)]
  for (const format of folder.formats) {
    TAKE_ONE[format] = one
    TAKE_TWO[format] = two
    GIVE_ONE[format] = give
  }
}

const ADMITTED_FORMATS: ReadonlySet<number> = new Set(
  FOLDERS.flatMap(({ name, formats }) => (ADMITTING.includes(name) ? formats : [])),
)

/** Decides a batch of one take of one limit in the plain layout; undefined: no script does. */
export function takeOneScript({ format, onRefusal }: Limit): BatchScript | undefined {
  return onRefusal === 'charge' ? undefined : TAKE_ONE[format]
}

/** The same for a call of two groups of one limit each. */
export function takeTwoScript(first: Limit, second: Limit): BatchScript | undefined {
  if (first.onRefusal === 'charge' || second.onRefusal === 'charge') return undefined
  return second.algorithm === SECOND ? TAKE_TWO[first.format] : undefined
}

/**
 * The same for a call of two groups of one limit each, of which the first admits once, as the mark
 * of a settle does. Its request is that of `BATCH`.
 */
export function settleOneScript(mark: Limit, { format }: Limit): BatchScript | undefined {
  return mark.format === MARK_FORMAT && ADMITTED_FORMATS.has(format) ? SETTLE_ONE : undefined
}

/** The same for a batch of one give. */
export function giveOneScript({ format }: Limit): BatchScript | undefined {
  return GIVE_ONE[format]
}

/** Every script, each once. */
export const SCRIPTS: readonly BatchScript[] = [
  ...new Set([BATCH, SETTLE_ONE, ...TAKE_ONE, ...TAKE_TWO, ...GIVE_ONE]),
].flatMap((each) => each ?? [])
