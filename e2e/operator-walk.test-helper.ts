/** The operator walk of docs/guides/runbook.md: its commands and their documented output. */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { type CommandResult, runSluice } from './operator.test-helper.js'

const DOC = readFileSync(new URL('../docs/guides/runbook.md', import.meta.url), 'utf8')
const WALK = '## A walk through four incidents'
/** The walk promises that each command answers within this time. */
const ANSWER_MS_MAX = 60_000
const LOOK_EVERY_MS = 500
/** These commands change nothing, so they are repeated until they print what is expected. */
const READING = /^(alerts|nodes|top|peek|rules (history|get|list))\b/

interface Step {
  /** Without `sluice`. */
  readonly commands: readonly string[]
  /** Expected output lines; `…` is any text. */
  readonly lines: readonly string[]
}

/** Runs the steps below a heading of the walk, one per call; `41` stands for a version. */
export function walkOf(incident: string, terminal: Terminal) {
  const steps = stepsOf(incident)[Symbol.iterator]()
  return (version?: number): Promise<readonly CommandResult[]> => {
    const { value: step } = steps.next()
    if (step === undefined) throw new Error(`the runbook has no further step of "${incident}"`)
    return runStep(step, terminal, version)
  }
}

/** The steps below a heading of the walk, in their order. */
function stepsOf(incident: string): readonly Step[] {
  const section = DOC.split(`\n${WALK}\n`)[1]?.split('\n## ')[0] ?? ''
  const part = section.split(`\n### ${incident}\n`)[1]?.split('\n### ')[0] ?? ''
  const blocks = [...part.matchAll(/^```(\w+)\n((?:.*\n)*?)```$/gm)]
  const steps: Step[] = []
  for (const [index, [, kind, text = '']] of blocks.entries()) {
    if (kind !== 'sh') continue
    const [, next, printed = ''] = blocks[index + 1] ?? []
    const commands = linesOf(text).map((line) => line.replace(/^sluice /, ''))
    steps.push({ commands, lines: next === 'text' ? linesOf(printed) : [] })
  }
  return steps
}

/** The rules of the walk. */
export function walkRules(): string {
  const section = DOC.split(`\n${WALK}\n`)[1] ?? ''
  return /```yaml\n((?:.*\n)*?)```/.exec(section)?.[1] ?? ''
}

function linesOf(text: string): readonly string[] {
  return text.split('\n').filter((line) => line !== '')
}

export interface Terminal {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

/** Runs the commands of a step and fails unless they print the documented output in time. */
async function runStep(
  { commands, lines }: Step,
  terminal: Terminal,
  version?: number,
): Promise<readonly CommandResult[]> {
  const put = (text: string) => (version === undefined ? text : text.replaceAll('41', `${version}`))
  const ran: CommandResult[] = []
  for (const command of commands) ran.push(await runSluice(wordsOf(put(command)), terminal))
  const missing = () => {
    const printed = ran.flatMap(({ out, err }) => `${out}${err}`.split('\n'))
    return lines.map(put).filter((line) => !printed.some((text) => patternOf(line).test(text)))
  }
  const end = performance.now() + ANSWER_MS_MAX
  while (missing().length > 0 && performance.now() < end) {
    await sleep(LOOK_EVERY_MS)
    for (const [index, command] of commands.entries()) {
      if (READING.test(command)) ran[index] = await runSluice(wordsOf(command), terminal)
    }
  }
  expect(missing(), ran.map(({ out, err }) => `${out}${err}`).join('\n')).toEqual([])
  return ran
}

/** Splits like a shell: single quotes keep a text together. */
function wordsOf(command: string): readonly string[] {
  return [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
}

function patternOf(line: string): RegExp {
  const parts = line.split('…').map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('.*')}$`)
}
