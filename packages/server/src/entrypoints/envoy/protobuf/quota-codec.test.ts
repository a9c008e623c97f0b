/** The quota messages, held against the official definitions. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { propertyRuns } from '../../../../../../tools/property-runs.js'
import { PAIRS_MAX, USAGES_MAX } from '../quota/quota-messages.js'
import { officialMessage } from './official-protos.test-helper.js'
import { decodeUsageReports, encodeQuotaResponse } from './quota-codec.js'

const REPORTS = officialMessage('envoy.service.rate_limit_quota.v3.RateLimitQuotaUsageReports')
const RESPONSE = officialMessage('envoy.service.rate_limit_quota.v3.RateLimitQuotaResponse')

const text = fc
  .string({ minLength: 1, maxLength: 20, unit: 'binary' })
  .filter((it) => it !== '__proto__')
const usage = fc.record({
  bucket: fc.dictionary(text, text, { minKeys: 1, maxKeys: 5, noNullPrototype: true }),
  allowed: fc.nat(),
  denied: fc.nat(),
})

const bucket = [{ key: 'user', value: 'u1' }]
const pairsOf = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 'v']))

describe('reports', () => {
  test('decode to what the official definitions encoded, with pairs in the order of names', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.array(usage), (domain, usages) => {
        const bytes = REPORTS.encode({
          domain,
          bucket_quota_usages: usages.map((each) => ({
            bucket_id: { bucket: each.bucket },
            time_elapsed: { seconds: 5, nanos: 0 },
            num_requests_allowed: each.allowed,
            num_requests_denied: each.denied,
          })),
        })
        const expected = usages.map(({ bucket: pairs, allowed, denied }) => ({
          bucket: Object.entries(pairs)
            .map(([key, value]) => ({ key, value }))
            .toSorted((a, b) => (a.key < b.key ? -1 : 1)),
          isAssignable: true,
          allowed,
          denied,
        }))
        expect(decodeUsageReports(bytes)).toEqual({ domain, usages: expected })
      }),
      { numRuns: propertyRuns(200) },
    )
  })

  test.each([
    ['no bucket_id', { num_requests_allowed: 1 }],
    ['no pairs', { bucket_id: { bucket: {} }, num_requests_allowed: 1 }],
    ['too many pairs', { bucket_id: { bucket: pairsOf(PAIRS_MAX + 1) }, num_requests_allowed: 1 }],
  ])('with %s are counted, but cannot be assigned anything', (_, invalid) => {
    const bytes = REPORTS.encode({ domain: 'd', bucket_quota_usages: [invalid] })
    expect(decodeUsageReports(bytes).usages).toMatchObject([{ isAssignable: false, allowed: 1 }])
  })

  test('with as many pairs as are read can', () => {
    const most = { bucket_id: { bucket: pairsOf(PAIRS_MAX) } }
    const bytes = REPORTS.encode({ domain: 'd', bucket_quota_usages: [most] })
    const [read] = decodeUsageReports(bytes).usages
    expect(read).toMatchObject({ isAssignable: true })
    expect(read?.bucket).toHaveLength(PAIRS_MAX)
  })

  test('have a bound for usages', () => {
    const one = REPORTS.encode({ bucket_quota_usages: [{ bucket_id: { bucket: { a: 'b' } } }] })
    const most = Buffer.concat(Array.from({ length: USAGES_MAX + 1 }, () => one))
    expect(decodeUsageReports(most).usages).toHaveLength(USAGES_MAX)
  })

  test('that end within a field are no message', () => {
    expect(() => decodeUsageReports(Buffer.from([0x12, 5, 0x0a]))).toThrow('exceeds its message')
  })
})

describe('assignments', () => {
  const action = (assigned: object) => ({
    bucket_id: { bucket: { user: 'u1' } },
    quota_assignment_action: {
      assignment_time_to_live: { seconds: 5 },
      rate_limit_strategy: assigned,
    },
  })
  const lease = action({
    token_bucket: {
      max_tokens: 7,
      tokens_per_fill: { value: 1 },
      fill_interval: { seconds: 3_153_600_000 },
    },
  })
  const assign = (strategy: object, isNew: boolean) =>
    ({ kind: 'assign', bucket, strategy, isNew, ttlSeconds: 5 }) as never

  test.each([
    [
      'all calls are allowed',
      assign({ kind: 'allow' }, true),
      [action({ blanket_rule: 'ALLOW_ALL' })],
    ],
    [
      'all calls are denied',
      assign({ kind: 'deny' }, true),
      [action({ blanket_rule: 'DENY_ALL' })],
    ],
    [
      'a new lease, which replaces the old one whole',
      assign({ kind: 'lease', calls: 7 }, true),
      [action({ blanket_rule: 'DENY_ALL' }), lease],
    ],
    ['a lease that is renewed', assign({ kind: 'lease', calls: 7 }, false), [lease]],
    [
      'a bucket that is abandoned',
      { kind: 'abandon', bucket } as never,
      [{ bucket_id: { bucket: { user: 'u1' } }, abandon_action: {} }],
    ],
  ])('%s', (_, sent, bucket_action) => {
    const bytes = encodeQuotaResponse([sent])
    expect(bytes.toString('hex')).toBe(RESPONSE.encode({ bucket_action }).toString('hex'))
  })
})
