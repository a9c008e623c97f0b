/** `sluice check`, `sluice peek` and `sluice inspect`: decisions and stored counters. */
import type { CounterView, DecisionSource, AdminDecisionView, InspectView } from '@sluice/client'
import type { Command } from 'commander'
import { OK, REFUSED } from '../command-errors.js'
import { isRecord, plainText } from '../guards.js'
import { callerText } from '@sluice/core/text'
import { elapsedText, instantText, timeText } from '../time-format.js'
import {
  type Cli,
  type CommonFlags,
  helpOf,
  run,
  withCommon,
  wholeNumber,
} from '../command-context.js'
import { pairs, table } from '../text-table.js'
import { parseAttributes } from '../parse-attributes.js'

interface CallFlags extends CommonFlags {
  readonly cost: number
}

interface CheckFlags extends CallFlags {
  readonly gate?: boolean
}

const ATTRIBUTES = ['<attributes...>', 'as in user=u1 method=GET path=/v1/orders'] as const
/** The most rules without a match that are listed; a set has up to 10,000. */
const UNMATCHED_SHOWN_MAX = 10

/** Names for the sources of a decision; all but the store are on the node that was asked. */
const SOURCE_TEXTS: ReadonlyMap<string, string> = new Map<DecisionSource, string>([
  ['store', 'by the store'],
  ['lease', 'by the node from a lease'],
  ['local', 'by the node from its own counts'],
  ['deny-cache', 'by the node from a refusal it remembers'],
  ['posture', 'by posture, without the store'],
])

const COST = ['--cost <cost>', 'what the call takes', wholeNumber('--cost'), 1] as const

export function addDecide(program: Command, cli: Cli): void {
  withCommon(program.command('check'))
    .argument(...ATTRIBUTES)
    .option(...COST)
    .option('--gate', 'charge nothing, and refuse only where a limit has nothing left')
    .description('decide a call and charge it; exits 1 if it is refused')
    .addHelpText('after', helpOf('sluice check user=u1 method=GET path=/v1/orders --cost 2'))
    .action((words: readonly string[], flags: CheckFlags) =>
      run(cli, flags, async ({ io, client, print }) => {
        const decision = await client.check({
          attributes: parseAttributes(words),
          ...(flags.gate === true ? { gate: true } : { cost: flags.cost }),
        })
        print(decision, () => decisionText(decision) + callersText(decision, io.columns))
        return decision.allowed ? OK : REFUSED
      }),
    )

  withCommon(program.command('peek'))
    .argument(...ATTRIBUTES)
    .option(...COST)
    .description(
      'what check would say, what each rule has left, which are not met and why; spends nothing',
    )
    .addHelpText('after', helpOf('sluice peek user=u1 method=GET path=/v1/orders'))
    .action((words: readonly string[], flags: CallFlags) =>
      run(cli, flags, async ({ io, client, print }) => {
        const decision = await client.peek({ attributes: parseAttributes(words), cost: flags.cost })
        print(
          decision,
          () =>
            decisionText(decision) +
            limitsTable(decision, io.columns) +
            unmatchedText(decision, io.columns),
        )
        return decision.allowed ? OK : REFUSED
      }),
    )

  withCommon(program.command('inspect'))
    .argument('<rule>', 'the id of a rule')
    .argument(
      '[attributes...]',
      'attributes of the caller, as in user=u1, and others that the rule needs',
    )
    .description('show the counters of one caller as they are stored')
    .addHelpText(
      'after',
      helpOf('sluice inspect per-user user=u1\nsluice inspect per-user user=u1 plan=pro --json'),
    )
    .action((rule: string, words: readonly string[], flags: CommonFlags) =>
      run(cli, flags, async ({ client, print }) => {
        const answer = await client.inspect(rule, parseAttributes(words))
        print(answer, () => inspectText(answer))
        return OK
      }),
    )
}

function decisionText(decision: AdminDecisionView): string {
  const { allowed, reason, rule, priority } = decision
  const number = (field: string) => {
    const value = decision[field]
    return typeof value === 'number' ? value : undefined
  }
  const limitName = decision['limitName']
  const shadow = decision['shadow']
  const [remaining, limit, retry, delay] = ['remaining', 'limit', 'retryAfterMs', 'delayMs'].map(
    number,
  )
  const limited = typeof limitName === 'string' ? `, limit ${limitName}` : ''
  const rows: (readonly [string, string])[] = [[allowed ? 'allowed' : 'refused', reason]]
  if (priority !== undefined) rows.push(['priority', plainText(priority)])
  if (typeof rule === 'string') rows.push(['rule', `${rule}${limited}`])
  if (remaining !== undefined) rows.push(['remaining', `${remaining} of ${limit ?? '?'}`])
  const reset = number('resetAfterMs')
  if (reset !== undefined) rows.push(['full in', timeText(reset)])
  if (!allowed) rows.push(['retry in', retry === undefined ? 'never' : timeText(retry)])
  if (delay !== undefined && delay > 0) rows.push(['held for', timeText(delay)])
  if (Array.isArray(shadow) && shadow.length > 0)
    rows.push(['shadow', shadow.map(plainText).join(', ')])
  if (reason !== 'unmatched') rows.push(['decided', sourceText(decision)])
  return pairs(rows)
}

function sourceText({ source, staleMs, reason, rule }: AdminDecisionView): string {
  if (reason === 'shed' && rule === null) return 'by the node, which is too busy'
  const by = SOURCE_TEXTS.get(source) ?? plainText(source)
  return staleMs === undefined ? by : `${by}, ${elapsedText(staleMs)} old`
}

/** Logs and Redis contain this hash in place of the caller. */
function callersText({ callers }: AdminDecisionView, columns: number | undefined): string {
  if (callers.length === 0) return ''
  const rows = callers.map(({ rule, caller, hash }) => [rule, callerText(caller), hash])
  return `\n${table(['RULE', 'CALLER', 'HASH'], rows, columns)}`
}

/** One line for each limit of each rule that matched. */
function limitsTable(decision: AdminDecisionView, columns: number | undefined): string {
  const explained = new Map(explainedOf(decision))
  const overrides = overridesOf(decision)
  const isOld = [...explained.values()].flat().some(({ staleMs }) => ageOf(staleMs) > 0)
  const rows = decision.callers.flatMap(({ rule, caller, hash }) => {
    const limits = explained.get(rule) ?? []
    const own = overrides.get(rule)
    const who = [own === undefined ? callerText(caller) : `${callerText(caller)} (${own})`, hash]
    if (limits.length === 0) return [[rule, 'no limit', '', '', ...(isOld ? [''] : []), ...who]]
    return limits.map((limit) => {
      const known = isOld ? [ageText(limit)] : []
      return [rule, ...limitCells(limit), ...known, ...who]
    })
  })
  if (rows.length === 0) return ''
  const known = isOld ? ['KNOWN'] : []
  const titles = ['RULE', 'LIMIT', 'LEFT', 'FULL IN', ...known, 'CALLER', 'HASH']
  return `\n${table(titles, rows, columns)}`
}

/**
 * The rules that do not match the call, each with the reason, which is often a missing attribute.
 */
function unmatchedText({ explain }: AdminDecisionView, columns: number | undefined): string {
  const all = Array.isArray(explain) ? explain.filter(isRecord) : []
  const unmatched = all.filter(({ matched }) => matched === false)
  if (unmatched.length === 0) return ''
  const rows = unmatched
    .slice(0, UNMATCHED_SHOWN_MAX)
    .map(({ rule, why }) => [plainText(rule), plainText(why)] as const)
  const rest = unmatched.length - rows.length
  const more = rest > 0 ? `and ${rest} more; --json has all\n` : ''
  return `\n${table(['NOT MET', 'WHY'], rows, columns)}${more}`
}

type Fields = Readonly<Record<string, unknown>>

function explainedOf({
  explain,
}: AdminDecisionView): readonly (readonly [string, readonly Fields[]])[] {
  if (!Array.isArray(explain)) return []
  return explain.filter(isRecord).map(({ rule, limits }) => {
    return [plainText(rule), Array.isArray(limits) ? limits.filter(isRecord) : []] as const
  })
}

/** For each rule with an active override, whom it is for: one caller, or a network. */
function overridesOf({ explain }: AdminDecisionView): ReadonlyMap<string, string> {
  const all = Array.isArray(explain) ? explain.filter(isRecord) : []
  return new Map(
    all.flatMap(({ rule, override }) => {
      if (!isRecord(override)) return []
      const values = Object.entries(override).map(
        ([name, value]) => [name, plainText(value)] as const,
      )
      return [[plainText(rule), `override of ${callerText(Object.fromEntries(values))}`] as const]
    }),
  )
}

function limitCells({ name, candidate, remaining, limit, ceiling, resetAfterMs, block }: Fields) {
  const isBelow = typeof ceiling === 'number'
  const notes = [
    ...(candidate === true ? ['candidate'] : []),
    ...(isBelow ? [`ceiling ${ceiling} of ${plainText(limit)}`] : []),
    ...blockNotes(block),
  ]
  const named = notes.length === 0 ? plainText(name) : `${plainText(name)} (${notes.join(', ')})`
  const reset = typeof resetAfterMs === 'number' ? timeText(resetAfterMs) : ''
  return [named, `${plainText(remaining)} of ${plainText(isBelow ? ceiling : limit)}`, reset]
}

/** `blocked until 2026-01-01T00:15:00.000Z, 2 in a row`; empty while the caller is not blocked. */
function blockNotes(block: unknown): readonly string[] {
  if (!isRecord(block) || typeof block['untilMs'] !== 'number') return []
  const until = new Date(block['untilMs']).toISOString()
  return [`blocked until ${until}, ${plainText(block['times'])} in a row`]
}

/** How old the remaining units of a limit are; those from the store were read just now. */
function ageText({ staleMs }: Fields): string {
  const age = ageOf(staleMs)
  return age === 0 ? 'now' : `${elapsedText(age)} ago`
}

function ageOf(staleMs: unknown): number {
  return typeof staleMs === 'number' ? staleMs : 0
}

function limitOf({ limit, where }: CounterView): string {
  return where === 'limits' ? limit : `${limit} (${where})`
}

function inspectText({ rule, caller, hash, counters }: InspectView): string {
  const head = pairs([
    ['rule', rule],
    ['caller', callerText(caller)],
    ['hash', hash],
  ])
  if (counters.length === 0) return `${head}No limit, so there is no counter.\n`
  return head + counters.map((counter) => `\n${counterText(counter)}`).join('')
}

type PlaceHolder = NonNullable<CounterView['holders']>[number]

function counterText(counter: CounterView): string {
  const { key, partition, node, state, ttlMs, bytes, remaining, resetAfterMs, block } = counter
  const { holders = [], regions = [] } = counter
  const words = Object.entries(state ?? {}).map(([name, value]) => `${name} ${plainText(value)}`)
  return pairs([
    [block === undefined ? 'limit' : 'block of', limitOf(counter)],
    ['key', key],
    ['partition', partition],
    ['node', node ?? 'in the process'],
    ['state', state === null ? noStateText(counter) : words.join(', ')],
    ['expires in', ttlMs === null ? undefined : timeText(ttlMs)],
    ['bytes', bytes ?? undefined],
    ...(block === undefined
      ? ([
          ['left', remaining],
          ['full in', timeText(resetAfterMs)],
        ] as const)
      : blockRows(block, resetAfterMs)),
    ...holders.map(holderRow),
    ...regions.map(regionRow),
  ])
}

/** `holder 421   3 places until 2026-01-01 12:00:10`. */
function holderRow({ holder, places, expiresAtMs }: PlaceHolder): readonly [string, string] {
  const until = instantText(new Date(expiresAtMs).toISOString())
  return [`holder ${holder}`, `${places} ${places === 1 ? 'place' : 'places'} until ${until}`]
}

/** `in us-east   990 left`. */
function regionRow({
  region,
  remaining,
  problem,
}: NonNullable<CounterView['regions']>[number]): readonly [string, string] {
  return [`in ${region}`, problem === undefined ? `${remaining} left` : `unknown: ${problem}`]
}

function noStateText({ block }: CounterView): string {
  return block === undefined ? 'none: the whole budget is there' : 'none: never blocked'
}

/** The last block, which may be over. */
function blockRows(
  { sinceMs, untilMs, times }: NonNullable<CounterView['block']>,
  leftMs: number,
): readonly (readonly [string, string | number])[] {
  const instant = (ms: number | null) =>
    ms === null ? 'never' : instantText(new Date(ms).toISOString())
  return [
    ['blocked', leftMs > 0 ? `for ${timeText(leftMs)}` : 'no'],
    ['since', instant(sinceMs)],
    ['until', instant(untilMs)],
    ['in a row', times],
  ]
}
