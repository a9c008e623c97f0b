/**
 * The script that decides a batch, put together from the files of `src/lua`. Comments and
 * indentation stay behind: a Redis that lost the script is sent all of it.
 *
 * Every run of a script makes its functions anew, and in Redis's Lua that costs more the more names
 * they share. So what not every batch needs is a function that makes it: the algorithms, the packed
 * layout, and all verbs but the take of one limit.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** `src/lua` is as far from here as from the built file. */
function source(name: string): string {
  const text = readFileSync(new URL(`../../../src/lua/${name}.lua`, import.meta.url), 'utf8')
  const lines = text.split('\n').map((line) => line.trim())
  return lines.filter((line) => line !== '' && !line.startsWith('--')).join('\n')
}

/** A limit's format is the number of its algorithm, from 1 on. */
export const SCRIPT = `local function makeAlgorithm(format)
if format <= 2 then
${source('token-bucket')}
end
${source('numbers')}
if format == 3 then
${source('leaky-bucket')}
elseif format == 4 then
${source('fixed-window')}
elseif format == 5 then
${source('sliding-window-counter')}
else
${source('log-records')}
${source('sliding-window-log')}
end
end
local function makePacked(request, now, SPAN_US)
${source('packed')}
end
local function makeVerbs(request, limits, now, read, keep, answer)
${source('verbs')}
end
${source('request')}
${source('counters')}
${source('batch')}
`

/** What EVALSHA knows it by. */
export const SCRIPT_SHA = createHash('sha1').update(SCRIPT).digest('hex')
