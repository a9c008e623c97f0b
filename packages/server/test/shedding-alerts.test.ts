/** Shedding by a rule, seen by the alerts of a whole engine in virtual time. */
import { afterEach, expect, test, vi } from 'vitest'
import { startVirtualEngine, type VirtualEngine } from './virtual-engine.test-helper.js'

const RULES = `
priorities: [critical, reads]
classify: [{ match: { path: /pay }, as: critical }]
rules:
  - id: fleet
    by: []
    limits: [{ algorithm: fixed-window, max: 100, window: 1s }]
    headroom: { critical: 20% }
    protects: capacity
`

let virtual: VirtualEngine

afterEach(() => virtual.close())

async function pass(seconds: number, reads: number, critical: number): Promise<void> {
  for (let second = 0; second < seconds; second++) {
    await virtual.call({ path: '/list' }, reads)
    await virtual.call({ path: '/pay' }, critical)
    vi.advanceTimersByTime(1000)
  }
}

test('a fleet that sheds raises one alert after 30 s, and another once critical calls are shed', async () => {
  virtual = await startVirtualEngine(RULES)
  const { changes, engine } = virtual
  await pass(60, 80, 20)
  expect(changes).toEqual([])
  await pass(29, 100, 20)
  expect(changes).toEqual([])
  await pass(3, 100, 20)
  expect(changes).toEqual(['+shedding:'])
  const [shedding] = engine.observability.alerts.active()
  expect(shedding).toMatchObject({
    severity: 'ticket',
    details: {
      shedBy: [expect.stringMatching(/^fleet: /)],
      priorities: [expect.stringMatching(/^reads: /)],
    },
  })
  // Six minutes at the ceiling: the rule has no budget left, which is nothing its callers can mend.
  await pass(360, 100, 20)
  expect(changes).toEqual(['+shedding:'])
  await pass(5, 100, 30)
  expect(changes).toEqual(['+shedding:', '+shedding-kept:critical'])
  await pass(60, 50, 20)
  expect(changes).toEqual([
    '+shedding:',
    '+shedding-kept:critical',
    '-shedding:',
    '-shedding-kept:critical',
  ])
})
