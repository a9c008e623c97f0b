/** `/metrics` of a whole server, checked with Prometheus's own parser. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findService } from '../../tools/services.mjs'
import { makeFolder } from '../process.test-helper.js'
import { start } from '../serve.test-helper.js'

const RULES = `
rules:
  - { id: per-user, by: [user], limits: [5/minute], candidate: { limits: [3/minute] } }
  - { id: per-address, by: [ip], limits: [1000000/second] }
  - { id: per-method, match: { path: /v1/* }, by: [method, path], limits: [10/second] }
  - { id: trial, by: [user], limits: [1/minute], mode: shadow }
`
const CALLERS = 1_000_000
const AT_ONCE = 1000
const IN_FLIGHT = 4

test('a million unique callers, methods and paths add no series, and promtool reports no problem', async () => {
  const folder = makeFolder()
  writeFileSync(join(folder, 'rules.yaml'), RULES)
  const sluice = await start({ SLUICE_RULES: 'rules.yaml' }, folder)
  // Each outcome once, so that every possible series exists beforehand.
  await decide(
    sluice.api,
    [...Array(20).keys()].map(() => callOf(0)),
  )
  await decide(sluice.api, [{ attributes: { path: '/none' } }])
  const before = await scrape(sluice.admin)
  let next = 1
  const worker = async () => {
    while (next < CALLERS) {
      const first = next
      next += AT_ONCE
      await decide(
        sluice.api,
        [...Array(AT_ONCE).keys()].map((n) => callOf(first + n)),
      )
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker))
  const after = await scrape(sluice.admin)
  expect(seriesOf(after)).toEqual(seriesOf(before))
  expect(valueOf(after, 'sluice_decisions_total{rule="per-address",outcome="allowed"')).toBe(
    CALLERS + 20,
  )
  // Approximately the real number, because it is an estimate.
  const callers = valueOf(after, 'sluice_callers{rule="per-user"')
  expect(callers).toBeGreaterThan(CALLERS * 0.9)
  expect(callers).toBeLessThan(CALLERS * 1.1)
  // The names of envoyproxy/ratelimit are as its dashboards know them.
  const ownNames = after.replace(/^.*\bratelimit_service_.*\n/gm, '')
  const checked = spawnSync(findService('promtool'), ['check', 'metrics'], {
    input: ownNames,
    encoding: 'utf8',
  })
  expect(`${checked.stdout}${checked.stderr}`).toBe('')
  expect(checked.status).toBe(0)
  await sluice.program.stop()
}, 300_000)

function callOf(n: number) {
  const user = `user-${n}`
  const ip = `2001:db8:${(n >>> 16).toString(16)}:${(n & 0xffff).toString(16)}::1`
  return { attributes: { user, ip, method: `M${n}`, path: `/v1/${n}`, user_agent: `agent ${n}` } }
}

async function decide(api: string, calls: readonly object[]): Promise<void> {
  const response = await fetch(`${api}/v1/check`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(calls),
  })
  expect(response.status).toBe(200)
  await response.arrayBuffer()
}

async function scrape(admin: string): Promise<string> {
  const response = await fetch(`${admin}/metrics`)
  expect(response.status).toBe(200)
  return response.text()
}

function samplesOf(text: string): readonly string[] {
  return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
}

function seriesOf(text: string): readonly string[] {
  return samplesOf(text).map((line) => line.slice(0, line.lastIndexOf(' ')))
}

/** The sum of the series that begin with this text. */
function valueOf(text: string, head: string): number {
  return samplesOf(text)
    .filter((line) => line.startsWith(head))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0)
}
