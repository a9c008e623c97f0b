/** A whole engine in virtual time, with the alerts that it raises. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { vi } from 'vitest'
import type { Alert } from '../src/observability/alerts/alert.js'
import { parseConfig } from '../src/config/parse-config.js'
import { type Engine, startEngine } from '../src/engine.js'
import { createMemoryLog } from '../src/observability/log/memory-log.test-helper.js'
import { readRules } from '../src/startup/preflight.js'

const BEGAN_MS = Date.UTC(2026, 0, 1)

export interface VirtualEngine {
  readonly engine: Engine
  /** `+id` for an alert that began, `-id` for one that ended. */
  readonly changes: readonly string[]
  readonly logged: ReturnType<typeof createMemoryLog>['lines']
  call(attributes: Readonly<Record<string, string>>, times?: number): Promise<void>
  close(): Promise<void>
}

/** Replaces the timers of the process until it is closed; `vi.advanceTimersByTime` moves them. */
export async function startVirtualEngine(rulesText: string): Promise<VirtualEngine> {
  const toFake = ['Date', 'performance', 'setInterval', 'clearInterval'] as const
  vi.useFakeTimers({ now: BEGAN_MS, toFake: [...toFake, 'setTimeout', 'clearTimeout'] })
  const folder = mkdtempSync(join(tmpdir(), 'sluice-observation-'))
  const rules = join(folder, 'rules.yaml')
  writeFileSync(rules, rulesText)
  const parsed = parseConfig('{}', { file: undefined, env: {}, readFile: () => '' })
  if (parsed.config === undefined) throw new Error(JSON.stringify(parsed.errors))
  const config = { ...parsed.config, rules, dataDir: folder }
  const { log, lines } = createMemoryLog()
  const engine = await startEngine(config, log, {
    rules: await readRules(config),
    isExample: false,
  })
  const changes: string[] = []
  engine.observability.alerts.onChange(({ id, resolvedAt }: Alert) => {
    changes.push(`${resolvedAt === null ? '+' : '-'}${id}`)
  })
  return {
    engine,
    changes,
    logged: lines,
    async call(attributes, times = 1) {
      for (let i = 0; i < times; i++) await engine.decider.check({ attributes }, 'api')
    },
    async close() {
      vi.useRealTimers()
      await engine.close()
      rmSync(folder, { recursive: true })
    },
  }
}
