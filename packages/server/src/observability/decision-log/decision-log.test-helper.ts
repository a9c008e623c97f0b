/** Decisions that a test chooses, and a folder that is removed after it. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Decision, formatHash, type Hash64, UNMATCHED } from '@sluice/core'
import { afterEach, vi } from 'vitest'
import type { DecisionLogConfig } from '../../config/config.js'
import { createMemoryLog } from '../log/memory-log.test-helper.js'
import { readMetrics, valueOf } from '../metrics/read-metrics.test-helper.js'
import { callWith } from '../../lib/normalized-call.test-helper.js'
import { createRegistry } from '../metrics/registry.js'
import type { FileSystem } from '../../rules/store/file/fs.js'
import { type DecisionLog, openDecisionLog } from './decision-log.js'
import type { LoggedDecision } from './decision-log-format.js'
import { readDecisions } from './read-decisions.js'

/** The outcome of one rule; a decision has one for each rule. */
export type DecisionInput = Omit<LoggedDecision, 'caller' | 'sample'> & { readonly caller: Hash64 }

export function decisionOf(...inputs: readonly DecisionInput[]): Decision {
  return {
    ...UNMATCHED,
    source: inputs[0]?.source ?? 'store',
    eachCaller(visit) {
      for (const { rule, caller, outcome } of inputs) {
        visit(rule, ['user'], caller, outcome, 1, 1, callWith(), 0)
      }
    },
  }
}

export const loggedOf = ({ caller, ...inputs }: DecisionInput, sample = 1): LoggedDecision => ({
  ...inputs,
  caller: formatHash(caller),
  sample,
})

export async function readAll(
  from: Parameters<typeof readDecisions>[0],
): Promise<readonly LoggedDecision[]> {
  const read: LoggedDecision[] = []
  for await (const decision of readDecisions(from)) read.push(decision)
  return read
}

const closing: (() => Promise<void> | void)[] = []

/** Everything that was opened is closed after each test, and its folder removed. */
export function closeAfterEach(): void {
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close()
  })
}

export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-decisions-'))
  closing.push(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export interface TestLog {
  readonly log: DecisionLog
  readonly file: string
  readonly clock: { nowMs: number }
  readonly lines: readonly Record<string, unknown>[]
  /** Logs one decision at its time. */
  readonly record: (...inputs: readonly DecisionInput[]) => void
  /** The metrics of the log. */
  readonly counts: () => {
    readonly lines: number | undefined
    readonly dropped: number | undefined
  }
}

export async function startLog(
  config: Partial<DecisionLogConfig> & {
    readonly folder?: string
    readonly suffix?: string
    readonly disk?: FileSystem
  } = {},
): Promise<TestLog> {
  const { folder = makeFolder(), suffix, disk, ...given } = config
  const file = join(folder, 'decisions.log')
  const clock = { nowMs: 1_760_000_000_000 }
  const registry = createRegistry()
  const wall = { now: () => clock.nowMs }
  const { log: lineLog, lines } = createMemoryLog('debug', wall)
  const log = await openDecisionLog({
    config: { file, sample: 1, maxBytes: 64 * 1024 * 1024, keep: 5, ...given },
    suffix,
    disk,
    clock: wall,
    log: lineLog,
    registry,
  })
  closing.push(() => log.close())
  return {
    log,
    file,
    clock,
    lines,
    record(...inputs) {
      clock.nowMs = inputs[0]?.atMs ?? clock.nowMs
      log.onDecision(decisionOf(...inputs), { attributes: {}, cost: inputs[0]?.cost })
    },
    counts() {
      const metrics = readMetrics(registry.text())
      return {
        lines: valueOf(metrics, 'sluice_decision_log_lines_total'),
        dropped: valueOf(metrics, 'sluice_decision_log_dropped_total'),
      }
    },
  }
}

/** Closing waits at most a second; rotated files may be compressed after that. */
export async function untilPacked(folder: string): Promise<readonly string[]> {
  const isDone = (name: string) => /\.log(?:\.\d+\.gz)?$/.test(name)
  await vi.waitUntil(() => readdirSync(folder).every(isDone), { timeout: 30_000 })
  return readdirSync(folder).sort()
}

/** The contents of all files of a log, the oldest first. */
export async function readFolder(folder: string): Promise<readonly LoggedDecision[]> {
  const placeOf = (name: string) => Number(/\.log\.(\d+)/.exec(name)?.[1] ?? 0)
  const names = [...(await untilPacked(folder))].sort((a, b) => placeOf(b) - placeOf(a))
  const all: LoggedDecision[] = []
  for (const name of names) all.push(...(await readAll(join(folder, name))))
  return all
}
