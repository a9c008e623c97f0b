/**
 * The scripts that decide a batch, put together from the files of `src/lua`. Comments and
 * indentation stay behind: a Redis that lost a script is sent all of it.
 *
 * Every run of a script makes its functions anew, and in Redis's Lua that costs more the more names
 * they share. So in the script of all batches, what not every batch needs is a function that makes
 * it; a take that is alone has a script of its own for each algorithm; and both try one function
 * first that knows only how a token bucket or a fixed window admits, which nearly all takes need.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Limit } from '@sluice/core'

export interface BatchScript {
  readonly source: string
  /** The words of a command that run it by its hash, as they go over the wire. */
  readonly byHash: Uint8Array
}

/** What a script for takes alone needs of an algorithm's file stands before this line of it. */
const VERBS_BUT_TAKE = '-- The verbs but take.\n'

/** `src/lua` is as far from here as from the built file. */
function readLua(name: string): string {
  return readFileSync(new URL(`../../../src/lua/${name}.lua`, import.meta.url), 'utf8')
}

function stripLua(text: string): string {
  const lines = text.split('\n').map((line) => line.trim())
  return lines.filter((line) => line !== '' && !line.startsWith('--')).join('\n')
}

/** An algorithm as far as takes need it, and how its states lie in bytes. */
function algorithmForTakes(name: string): string {
  const [forTakes = ''] = readLua(name).split(VERBS_BUT_TAKE)
  return forTakes + readLua('value')
}

function algorithm(name: string): string {
  const [, others = ''] = readLua(name).split(VERBS_BUT_TAKE)
  return algorithmForTakes(name) + others
}

function batchScript(...sources: readonly string[]): BatchScript {
  const source = `${sources.map(stripLua).join('\n')}\n`
  const sha = createHash('sha1').update(source).digest('hex')
  return { source, byHash: Buffer.from(`$7\r\nEVALSHA\r\n$40\r\n${sha}\r\n`) }
}

/** A limit's format is the number of its algorithm, from 1 on. */
const MAKE_ALGORITHM = `local function makeAlgorithm(format)
if format <= 2 then
${algorithm('token-bucket')}
end
${readLua('numbers')}
if format == 3 then
${algorithm('leaky-bucket')}
elseif format == 4 then
${algorithm('fixed-window')}
elseif format == 5 then
${algorithm('sliding-window-counter')}
else
${readLua('log-records')}
${readLua('sliding-window-log')}
end
end`

const MAKE_PACKED = `local function makePacked(request, now, SPAN_US)
${readLua('packed')}
end`

const MAKE_VERBS = `local function makeVerbs(makeAlgorithm, algorithms, request, limits, now, reply,
values, writes, spoiled, isPacked, valueCount, keysBefore)
${readLua('span')}
${readLua('answer')}
${readLua('states')}
${readLua('verbs')}
end`

/** Decides any batch. */
export const BATCH = batchScript(
  MAKE_ALGORITHM,
  MAKE_PACKED,
  MAKE_VERBS,
  readLua('admit-bucket'),
  readLua('admit-window'),
  readLua('span'),
  readLua('request'),
  readLua('counters'),
  readLua('batch'),
)

/** What `admit` of an algorithm finds of a take, and the form in which that is written. */
const FOUND = 'local kept, left, resetMs, at, expires, a, b, c'
const ADMIT_BUCKET = `local NARROW = '>BI4I7I4I4'
${FOUND} = admitBucket(value, format, capacity, lent, p, q, tickUs, amount, now)`
const ADMIT_WINDOW = `local NARROW = '>BI4I7I4'
${FOUND} = admitWindow(value, format, max, windowUs, amount, now)`

/** A script that tries `admit` first. */
function admitOne(admit: string, call: string, ...sources: readonly string[]): BatchScript {
  const first = [
    readLua(admit),
    readLua('span'),
    readLua('take-one'),
    call,
    readLua('take-one-admitted'),
  ]
  return batchScript(...first, ...sources, readLua('answer'), readLua('take-one-any'))
}

function takeOne(...sources: readonly string[]): BatchScript {
  return batchScript(
    ...sources,
    readLua('span'),
    readLua('answer'),
    readLua('take-one'),
    readLua('take-one-any'),
  )
}

/** All of an algorithm, apart from another one in the same script. */
function makeOther(name: string): string {
  const numbers = name === 'token-bucket' ? '' : readLua('numbers')
  return `local function makeOther()\n${numbers}\n${algorithm(name)}\nend`
}

function takeTwo(...sources: readonly string[]): BatchScript {
  const other = makeOther('sliding-window-counter')
  return batchScript(other, ...sources, readLua('span'), readLua('answer'), readLua('take-two'))
}

function giveOne(name: string): BatchScript {
  return batchScript(makeOther(name), readLua('span'), readLua('give-one'))
}

const bucket = admitOne('admit-bucket', ADMIT_BUCKET, algorithmForTakes('token-bucket'))
const window = [readLua('numbers'), algorithmForTakes('fixed-window')]
const BY_FORMAT = [
  undefined,
  bucket,
  bucket,
  takeOne(readLua('numbers'), algorithmForTakes('leaky-bucket')),
  admitOne('admit-window', ADMIT_WINDOW, ...window),
  takeOne(readLua('numbers'), algorithmForTakes('sliding-window-counter')),
]

/** Decides a batch of one take of one limit in the plain layout; undefined: no script does. */
export function takeOneScript({ format, onRefusal }: Limit): BatchScript | undefined {
  return onRefusal === 'charge' ? undefined : BY_FORMAT[format]
}

const bucketOfTwo = takeTwo(algorithmForTakes('token-bucket'))
const TWO_BY_FORMAT = [
  undefined,
  bucketOfTwo,
  bucketOfTwo,
  takeTwo(readLua('numbers'), algorithmForTakes('leaky-bucket')),
  takeTwo(readLua('numbers'), algorithmForTakes('fixed-window')),
  takeTwo(readLua('numbers'), algorithmForTakes('sliding-window-counter')),
]

/** The same for a call of two groups of one limit each. */
export function takeTwoScript(first: Limit, second: Limit): BatchScript | undefined {
  if (first.onRefusal === 'charge' || second.onRefusal === 'charge') return undefined
  return second.algorithm === 'sliding-window-counter' ? TWO_BY_FORMAT[first.format] : undefined
}

const giveToBucket = giveOne('token-bucket')
const GIVE_BY_FORMAT = [
  undefined,
  giveToBucket,
  giveToBucket,
  giveOne('leaky-bucket'),
  giveOne('fixed-window'),
  giveOne('sliding-window-counter'),
]

/** The same for a batch of one give. */
export function giveOneScript({ format }: Limit): BatchScript | undefined {
  return GIVE_BY_FORMAT[format]
}

/** Every script there is, each once. */
export const SCRIPTS: readonly BatchScript[] = [
  ...new Set([BATCH, ...BY_FORMAT, ...TWO_BY_FORMAT, ...GIVE_BY_FORMAT]),
].flatMap((each) => each ?? [])
