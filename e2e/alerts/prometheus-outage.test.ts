/**
 * Metrics of two real outages, scraped while they happen and given to promtool: Redis is killed,
 * and Redis hangs. The alerts that promtool evaluates must match the rule file. Each scrape stands
 * for one every 15 s.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { findService } from '../../tools/services.mjs'
import { makeFolder } from '../process.test-helper.js'
import { shareRedis } from '../serve-redis.test-helper.js'
import { useReceiver } from './alert-receiver.test-helper.js'
import { check, repeatEvery, startAlertingServer } from './alerting-server.test-helper.js'

const RULES_FILE = fileURLToPath(new URL('../../monitoring/prometheus-rules.yaml', import.meta.url))
/** Scrape interval in a steady state, and while a server needs seconds to notice a change. */
const STEADY_MS = 100
const CHANGE_MS = 1000
/** In the virtual time of promtool. */
const SCRAPE_SECONDS = 15
const SCRAPES_MAX = 150
const TARGET = 'job="sluice",instance="a:9090"'
/** More scrapes than the range of the alert expression. */
const TWO_MINUTES = 9
const RULES = ['a', 'b', 'c'].map((id) => ({
  id,
  match: { path: `/${id}` },
  by: ['user'],
  limits: ['1000000/second'],
  posture: 'open',
}))
const CALLS = RULES.flatMap(({ id }) =>
  Array.from({ length: 20 }, () => ({ user: 'u1', path: `/${id}` })),
)

const redis = shareRedis()
const receiver = useReceiver()

/** The samples that Prometheus would have stored, one value per scrape. */
class Recording {
  readonly #admin: string
  readonly #names: ReadonlySet<string>
  readonly #series = new Map<string, string[]>()
  scrapes = 0

  constructor(admin: string, names: ReadonlySet<string>) {
    this.#admin = admin
    this.#names = names
  }

  /** Scrapes until a condition holds, and then this many times more. */
  async scrapeUntil(isSo: () => boolean, more: number): Promise<void> {
    do {
      await this.scrape()
      await sleep(CHANGE_MS)
    } while (!isSo() && this.scrapes < SCRAPES_MAX)
    for (let i = 0; i < more; i++) {
      await this.scrape()
      await sleep(STEADY_MS)
    }
  }

  /** The last value of the only series of that name; undefined if the last scrape had none. */
  last(name: string): number | undefined {
    for (const [series, values] of this.#series) {
      const value = values[this.scrapes - 1]
      if (series.startsWith(`${name}{`) && value !== undefined) return Number(value)
    }
    return undefined
  }

  /** The sum of the last values of all series of that name whose labels contain this text. */
  sum(name: string, labels: string): number {
    const all = [...this.#series].filter(
      ([series]) => series.startsWith(`${name}{`) && series.includes(labels),
    )
    return all.reduce((total, [, values]) => total + Number(values[this.scrapes - 1] ?? 0), 0)
  }

  inputSeries(): readonly { readonly series: string; readonly values: string }[] {
    const up = { series: `up{${TARGET}}`, values: `1x${this.scrapes}` }
    const recorded = [...this.#series].map(([series, values]) => ({
      series,
      values: Array.from({ length: this.scrapes }, (_, i) => values[i] ?? '_').join(' '),
    }))
    return [up, ...recorded]
  }

  private async scrape(): Promise<void> {
    const text = await (await fetch(`${this.#admin}/metrics`)).text()
    for (const line of text.split('\n')) {
      const found = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line)
      if (found === null || !this.#names.has(found[1] ?? '')) continue
      const labels = found[2] === undefined ? TARGET : `${TARGET},${found[2]}`
      const series = `${found[1]}{${labels}}`
      const values = this.#series.get(series) ?? []
      this.#series.set(series, values)
      values[this.scrapes] = String(Number(found[3]))
    }
    this.scrapes++
  }
}

/**
 * The metrics that the rule file uses, without latency quantiles, which are not part of an outage.
 */
function metricsOfRules(): ReadonlySet<string> {
  const names = readFileSync(RULES_FILE, 'utf8').match(/(?<![\w:])sluice_\w+/g) ?? []
  return new Set(names.filter((name) => !name.endsWith('_bucket')))
}

const STORE_DOWN = 'sum by (alertname, store) (ALERTS{alertname="SluiceStoreDown"})'
const PAGES = 'sum by (alertname, store) (ALERTS{alertstate="firing",severity="page"})'

interface Expected {
  readonly expr: string
  readonly eval_time: string
  readonly exp_samples: readonly { readonly labels: string; readonly value: number }[]
}

test('the stock alert fires alone while Redis is killed and while it hangs, and resolves after each', {
  timeout: 180_000,
}, async () => {
  const server = await startAlertingServer({
    url: await receiver.open(),
    config: { redis: { url: redis().url, deadline: '200ms' } },
    rules: RULES,
  })
  const metrics = new Recording(server.admin, metricsOfRules())
  const up = () => metrics.last('sluice_store_up')
  const isUp = () => up() === 1
  const isDown = () => up() === 0
  const stop = repeatEvery(20, () => check(server.api, CALLS))
  const expected: Expected[] = []
  const timeOf = (scrape: number) => `${scrape * SCRAPE_SECONDS}s`
  const firing = [{ labels: `{alertname="SluiceStoreDown",store="${redis().address}"}`, value: 1 }]
  // On a busy machine decisions are late, which is another alert.
  const expectOver = () =>
    expected.push({ expr: STORE_DOWN, eval_time: timeOf(metrics.scrapes - 1), exp_samples: [] })
  /** From the scrape at which it fired, it is the only paging alert at each of these times. */
  const expectOnlyPage = (scrapes: number) => {
    for (let i = 1; i <= scrapes; i++) {
      const at = { eval_time: timeOf(metrics.scrapes - i) }
      expected.push({ expr: PAGES, ...at, exp_samples: firing })
    }
  }

  await metrics.scrapeUntil(isUp, TWO_MINUTES)
  expectOver()

  await redis().kill()
  await metrics.scrapeUntil(isDown, TWO_MINUTES)
  expectOnlyPage(TWO_MINUTES)
  // The cause of an alert that once did not fire: no breaker opens without a connection.
  expect(metrics.last('sluice_breaker_open')).toBe(0)
  const text = await (await fetch(`${server.admin}/metrics`)).text()
  const [, unsent] = /^sluice_store_errors_total\{code="connection"\} (\d+)$/m.exec(text) ?? []
  expect(Number(unsent)).toBeGreaterThan(100)
  expect(metrics.sum('sluice_degraded_total', 'rule="a"')).toBeGreaterThan(100)
  await redis().start()
  await metrics.scrapeUntil(isUp, 2 * TWO_MINUTES)
  expectOver()

  redis().pause()
  await metrics.scrapeUntil(isDown, TWO_MINUTES)
  expectOnlyPage(TWO_MINUTES)
  redis().resume()
  await metrics.scrapeUntil(isUp, 2 * TWO_MINUTES)
  expectOver()
  await stop()

  expect(metrics.scrapes).toBeLessThan(SCRAPES_MAX)
  expect(promtool(metrics, expected)).toContain('SUCCESS')
})

/** Throws with the output of promtool if an expectation failed. */
function promtool(metrics: Recording, expected: readonly Expected[]): string {
  const interval = `${SCRAPE_SECONDS}s`
  const tests = [{ interval, input_series: metrics.inputSeries(), promql_expr_test: expected }]
  const whole = { rule_files: [RULES_FILE], evaluation_interval: interval, tests }
  // JSON is valid YAML.
  const file = join(makeFolder(), 'outage.test.yaml')
  writeFileSync(file, JSON.stringify(whole))
  const options = { encoding: 'utf8', stdio: 'pipe' } as const
  return execFileSync(findService('promtool'), ['test', 'rules', file], options)
}
