/** The service over a remote store that answers late or not at all. */
import { manualClock } from '@sluice/limiter/testing'
import { describe, expect, test } from 'vitest'
import { descriptorOf, statusText } from './conformance.test-helper.js'
import { RemoteMemory } from './remote-memory.test-helper.js'
import { openService, type OpenOptions } from './rate-limit-service.test-helper.js'

const CONFIG = [
  {
    domain: 'shop',
    descriptors: [
      { key: 'user', rate_limit: { unit: 'hour', requests_per_unit: 2 } },
      { key: 'plan', rate_limit: { unit: 'hour', requests_per_unit: 10 } },
      { key: 'one', rate_limit: { unit: 'hour', requests_per_unit: 1 }, quota_mode: true },
      { key: 'two', rate_limit: { unit: 'hour', requests_per_unit: 2 }, quota_mode: true },
    ],
  },
]

async function open(options: OpenOptions = {}, denyCacheMs = 0) {
  const clock = manualClock()
  const store = new RemoteMemory(clock, denyCacheMs)
  const opened = await openService({ config: CONFIG, ...options, clock, store })
  const ask = async (texts: readonly string[], timeoutMs?: number) => {
    const request = { domain: 'shop', descriptors: texts.map(descriptorOf), hitsAddend: 0 }
    return opened.service.shouldRateLimit(request, { timeoutMs })
  }
  const statuses = async (...texts: string[]) => (await ask(texts)).statuses.map(statusText)
  return { ...opened, store, ask, statuses }
}

describe('a store that does not answer', () => {
  test('each limit decides by the posture of its domain, and no call fails', async () => {
    const { store, statuses } = await open()
    store.isSilent = true
    const seen: string[] = []
    for (let i = 0; i < 3; i++) seen.push(...(await statuses('user=a')))
    expect(seen).toEqual(['OK 2/hour 1 3600s', 'OK 2/hour 0 3600s', 'OVER 2/hour 0 3600s'])
  })

  test('a closed domain refuses, an open one admits', async () => {
    const overall = async (posture: 'open' | 'closed') => {
      const { store, ask } = await open({ domains: new Map([['shop', { posture }]]) })
      store.isSilent = true
      return (await ask(['user=a'])).overallCode
    }
    expect([await overall('open'), await overall('closed')]).toEqual(['ok', 'over-limit'])
  })

  test('of alternatives each decides by its posture, and one with room is enough', async () => {
    const { store, ask } = await open()
    store.isSilent = true
    const seen: string[] = []
    for (let i = 0; i < 3; i++) seen.push((await ask(['one=a', 'two=a'])).overallCode)
    expect(seen).toEqual(['ok', 'ok', 'over-limit'])
  })

  test('with counting: reference all are counted here, also quotas beside a limit that is over', async () => {
    const domains = new Map([['shop', { counting: 'reference' }]] as const)
    const answersOf = async (isSilent: boolean) => {
      const { store, ask } = await open({ domains })
      store.isSilent = isSilent
      const seen: string[] = []
      for (let i = 0; i < 4; i++) {
        const { overallCode, statuses } = await ask(['user=a', 'one=a', 'two=a'])
        seen.push([overallCode, ...statuses.map(statusText)].join(', '))
      }
      return seen
    }
    const answers = await answersOf(true)
    expect(answers).toEqual(await answersOf(false))
    expect(answers.map((answer) => answer.split(',')[0])).toEqual([
      'ok',
      'ok',
      'over-limit',
      'over-limit',
    ])
    expect(answers[3]).toBe(
      'over-limit, OVER 2/hour 0 3600s, OVER 1/hour 0 3600s, OVER 2/hour 0 3600s',
    )
  })

  test('units that cannot be given back are lost, counted, and their descriptor passes', async () => {
    const { store, statuses, registry } = await open({
      domains: new Map([['shop', { posture: 'closed' }]]),
    })
    store.isSilent = true
    const [status] = await statuses('user=a hits=1 negative')
    expect(status).toMatch(/^OK 2\/hour /)
    expect(registry.text()).toContain('sluice_envoy_returns_lost_total 1')
  })
})

describe('trips to the store', () => {
  test('a request is one take, whatever it asks for', async () => {
    const { store, statuses } = await open()
    await statuses('user=a', 'plan=a hits=3', 'plan=b hits=0', 'one=a', 'two=a', 'nowhere=x')
    expect(store.takes).toHaveLength(1)
    expect(store.takes[0]?.groups.map((takes) => takes.length)).toEqual([3, 1, 1])
  })

  test('a request without limits needs none', async () => {
    const { store, statuses } = await open()
    expect(await statuses('nowhere=x')).toEqual(['OK'])
    expect(store.takes).toHaveLength(0)
  })

  test('a caller that is known to be over costs none, and the answer shows what refuses', async () => {
    const { store, statuses } = await open({}, 1000)
    for (let i = 0; i < 3; i++) await statuses('user=a', 'plan=a')
    expect(store.takes).toHaveLength(3)
    expect(await statuses('user=a', 'plan=a')).toEqual(['OVER 2/hour 0 3600s', 'OK'])
    expect(store.takes).toHaveLength(3)
    // Another caller, and one whose amount is counted in any case, are decided by the store.
    await statuses('user=b')
    await statuses('user=a', 'plan=a hits=1')
    expect(store.takes).toHaveLength(5)
    await statuses('user=a hits=1 negative')
    expect(await statuses('user=a')).toEqual(['OK 2/hour 0 3600s'])
  })

  test('a caller whose block is remembered stays refused once its limit has room again', async () => {
    const limit = { max: 1, window: '1s', block: '10m' }
    const rules = [{ id: 'per-user', by: ['user'], limits: [limit] }]
    const { store, clock, ask } = await open({ config: undefined, rules }, 1000)
    const codes: string[] = []
    for (const waitMs of [0, 0, 30_000, 0, 0]) {
      clock.advance(waitMs)
      const { overallCode, statuses } = await ask(['user=a'])
      codes.push(`${overallCode} ${statuses[0]?.code}`)
    }
    expect(codes).toEqual(['ok ok', ...Array.from({ length: 4 }, () => 'over-limit over-limit')])
    // The last two are known here.
    expect(store.takes).toHaveLength(3)
  })

  test('descriptors of one counter have the same statuses when a refusal is remembered', async () => {
    const { store, statuses } = await open({}, 1000)
    await statuses('user=a')
    const first = await statuses('user=a', 'user=a')
    expect(await statuses('user=a', 'user=a')).toEqual(first)
    expect(first).toEqual(['OK 2/hour 1 3600s', 'OVER 2/hour 1 3600s'])
    expect(store.takes).toHaveLength(2)
  })

  test.each([
    [undefined, 15],
    [20, 15],
    [100, 50],
    [25.9, 20],
    [3, 1],
  ])('a client that waits %s ms gives the store %i ms', async (timeoutMs, deadlineMs) => {
    const { store, ask } = await open()
    await ask(['user=a'], timeoutMs)
    expect(store.takes[0]?.options).toMatchObject({ deadlineMs, capMs: 3 })
  })
})
