/** Requests whose descriptors get in each other's way. */
import { memoryStore } from '@sluice/limiter'
import { manualClock } from '@sluice/limiter/testing'
import { describe, expect, test } from 'vitest'
import { descriptorOf, statusText } from './conformance.test-helper.js'
import { openService, type OpenOptions } from './rate-limit-service.test-helper.js'

const hourly = (key: string, requests_per_unit: number, more: object = {}) => ({
  key,
  rate_limit: { unit: 'hour', requests_per_unit },
  ...more,
})
const REQUIRED = new Map([['d', { requireMatch: true }]])

async function open(descriptors: readonly object[] | undefined, options: OpenOptions = {}) {
  const config = descriptors && [{ domain: 'd', descriptors }]
  const opened = await openService({ config, ...options })
  const respond = (...texts: readonly string[]) => {
    const request = { domain: 'd', descriptors: texts.map(descriptorOf), hitsAddend: 0 }
    return opened.service.shouldRateLimit(request, { timeoutMs: undefined })
  }
  const ask = async (...texts: readonly string[]) => {
    const { overallCode, statuses } = await respond(...texts)
    return [overallCode, ...statuses.map(statusText)]
  }
  return { ...opened, respond, ask }
}

describe('alternatives', () => {
  test('a descriptor that gives back is none: what is admitted beside it is charged', async () => {
    const { ask } = await open([hourly('q', 1, { quota_mode: true }), hourly('z', 9)])
    const request = ['q=a', 'q=b hits=1 negative', 'z=1'] as const
    expect((await ask(...request))[0]).toBe('ok')
    expect((await ask(...request))[0]).toBe('over-limit')
    expect(await ask('z=1')).toEqual(['ok', 'OK 9/hour 7 3600s'])
  })

  test('one that must match and does not refuses the request, also if all are quotas', async () => {
    const { ask } = await open([hourly('user', 2)], { isQuota: true, domains: REQUIRED })
    expect((await ask('user=a', 'nowhere=x'))[0]).toBe('over-limit')
    expect(await ask('user=a')).toEqual(['ok', 'OK 2/hour 1 3600s'])
  })
})

test('a descriptor that gives back is not refused, also if it matches no limit', async () => {
  const { ask } = await open([hourly('user', 2)], { domains: REQUIRED })
  expect(await ask('nowhere=x hits=1 negative', 'user=a')).toEqual([
    'ok',
    'OK',
    'OK 2/hour 1 3600s',
  ])
})

describe('a pattern in a key', () => {
  const PATTERN = [hourly('us*', 2)]

  test('counts each key by itself', async () => {
    const { ask } = await open(PATTERN)
    for (const left of [1, 0]) {
      expect(await ask('user=x')).toEqual(['ok', `OK 2/hour ${left} 3600s`])
      expect(await ask('usage=x')).toEqual(['ok', `OK 2/hour ${left} 3600s`])
    }
    expect((await ask('user=x'))[0]).toBe('over-limit')
  })

  test('has the same counters whichever of its keys came first', async () => {
    const clock = manualClock()
    const store = memoryStore({ clock })
    const one = await open(PATTERN, { clock, store })
    const other = await open(PATTERN, { clock, store })
    await one.ask('user=x')
    await other.ask('usage=x')
    expect(await other.ask('user=x')).toEqual(['ok', 'OK 2/hour 0 3600s'])
    expect((await one.ask('user=x'))[0]).toBe('over-limit')
  })
})

describe('calls of one caller in two tiers', () => {
  const rules = [
    { id: 'r', by: ['user'], limits: ['2/hour'], tiers: { plan: { pro: ['10/hour'] } } },
  ]

  test.each([
    ['user=a,plan=pro', 'user=a,plan=free'],
    ['user=a,plan=free', 'user=a,plan=pro'],
  ])('the smaller limit decides %s and %s together', async (...request) => {
    const { ask } = await open(undefined, { rules })
    const answers = [await ask(...request), await ask(...request), await ask(...request)]
    expect(answers.map(([overall]) => overall)).toEqual(['ok', 'over-limit', 'over-limit'])
    expect(answers.flat().join(' ')).not.toMatch(/ -[0-9]/)
  })
})

describe('refusals without a limit', () => {
  const rules = [{ id: 'r', by: ['user'], limits: ['2/hour'] }]

  test('an attribute that is too long is named in the body', async () => {
    const { respond } = await open(undefined, { rules })
    const { overallCode, rawBody } = await respond(`user=${'x'.repeat(100_000)}`)
    expect(overallCode).toBe('over-limit')
    expect(JSON.parse(rawBody)).toMatchObject({
      error: 'invalid',
      detail: expect.stringMatching(/attribute user: found 100000 characters/),
    })
    expect(rawBody).not.toContain('xxx')
  })

  test('an amount that is no exact number is refused like any that exceeds the limit', async () => {
    const { ask } = await open(undefined, { rules })
    expect((await ask('user=a hits=18446744073709551615'))[0]).toBe('over-limit')
  })
})

test('a descriptor with thousands of entries of one key is decided at once', async () => {
  const { service } = await open(undefined, {
    rules: [{ id: 'r', by: ['k_2'], limits: ['1/hour'] }],
  })
  const entries = Array.from({ length: 10_000 }, (_, i) => ({ key: 'k', value: String(i) }))
  const descriptor = { entries, limit: undefined, hitsAddend: undefined, isNegativeHits: false }
  const request = { domain: 'd', descriptors: [descriptor], hitsAddend: 0 }
  const ask = () => service.shouldRateLimit(request, { timeoutMs: undefined })
  expect([(await ask()).overallCode, (await ask()).overallCode]).toEqual(['ok', 'over-limit'])
})
