import { expect, test } from 'vitest'
import { UpstreamFailures } from './upstream-failing.js'

const ORIGIN = 'http://10.0.0.5:3000'

function setUp() {
  const failing = new UpstreamFailures()
  const counts = { origin: ORIGIN, calls: 0, failures: 0, lastCode: '' }
  /** Returns what is found at the last of these seconds. */
  const tick = (seconds: number, calls: number, failures = 0) => {
    let found: ReturnType<typeof failing.evaluate> = []
    for (let i = 0; i < seconds; i++) {
      counts.calls += calls
      counts.failures += failures
      if (failures > 0) counts.lastCode = '502 ECONNREFUSED'
      found = failing.evaluate([counts])
    }
    return found.map(({ summary }) => summary)
  }
  return { tick, failing, counts }
}

test('an upstream is failing with ten failures in a minute, and not with nine', () => {
  const { tick } = setUp()
  tick(1, 100)
  expect(tick(1, 9, 9)).toEqual([])
  expect(tick(1, 1, 1)).toEqual([
    `Upstream ${ORIGIN} does not answer 10 of 110 calls in the last 60 s; the last failure was 502 ECONNREFUSED.`,
  ])
})

test('an upstream is failing above five in a hundred calls, and not at that', () => {
  const { tick } = setUp()
  expect(tick(1, 1000, 50)).toEqual([])
  expect(tick(1, 1, 1)).toHaveLength(1)
})

test('an upstream that is called once a minute and never answers is found at the third call', () => {
  const { tick } = setUp()
  const minute = () => [...tick(1, 1, 1), ...tick(59, 0)].length
  expect([minute(), minute(), minute()]).toEqual([0, 0, 2])
})

test('a failing upstream recovers a minute after its last failure', () => {
  const { tick } = setUp()
  tick(1, 100, 100)
  expect(tick(59, 0)).toHaveLength(1)
  expect(tick(1, 0)).toEqual([])
})

test('each upstream is judged by its own calls', () => {
  const failing = new UpstreamFailures()
  const found = failing.evaluate([
    { origin: 'http://a:1', calls: 100, failures: 90, lastCode: '504 RESPONSE_TIMEOUT' },
    { origin: 'http://b:1', calls: 100_000, failures: 90, lastCode: '502 ECONNRESET' },
  ])
  expect(found).toMatchObject([
    {
      subject: 'http://a:1',
      past: expect.stringContaining('did not answer 90 of 100 calls'),
      details: { upstream: 'http://a:1', calls: 100, failures: 90, code: '504 RESPONSE_TIMEOUT' },
    },
  ])
})
