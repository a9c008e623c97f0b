import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sendRequest } from '../../entrypoints/gateway/forward.test-helper.js'
import { readMetrics, valueOf } from '../metrics/read-metrics.test-helper.js'
import { startTestServer } from '../../serve.test-helper.js'
import { closeAfterEach, makeFolder, readAll } from './decision-log.test-helper.js'

closeAfterEach()

test('a server writes its decisions, and pending ones when it stops', async () => {
  const file = join(makeFolder(), 'decisions.log')
  const server = await startTestServer({
    rules: [
      { id: 'address', by: ['ip'], limits: ['2/hour'] },
      { id: 'dear', by: ['ip'], limits: ['20/hour'], cost: 10, mode: 'shadow' },
    ],
    config: { decisionLog: { file, sample: 1 } },
  })
  for (let i = 0; i < 3; i++) await sendRequest(server.gatewayPort, {})
  const metrics = readMetrics(await (await fetch(`${server.admin}/metrics`)).text())
  expect(valueOf(metrics, 'sluice_decision_log_dropped_total')).toBe(0)
  await server.close()
  const read = await readAll(file)
  expect(read.map(({ rule, cost, outcome, source }) => [rule, cost, outcome, source])).toEqual([
    ['address', 1, 'allowed', 'store'],
    ['dear', 10, 'allowed', 'store'],
    ['address', 1, 'allowed', 'store'],
    ['dear', 10, 'allowed', 'store'],
    // No line of `dear`: it does not decide a call that another rule refuses.
    ['address', 1, 'refused', 'store'],
  ])
  expect(new Set(read.map(({ caller }) => caller)).size).toBe(1)
})
