import { describe, expect, test } from 'vitest'
import { answer, cleanAfterTests, startAdmin } from '../cli.test-helper.js'

cleanAfterTests()

const override = { id: 'user=u1', caller: { user: 'u1' }, limits: ['50/second'], version: 8 }
const routes = {
  'GET /rules/per-user': answer({
    id: 'per-user',
    by: 'user',
    limits: ['1/second'],
    version: 7,
    overrideCount: 1,
  }),
  'POST /rules/per-user/overrides': answer({ ...override, until: '2027-01-01T00:00:00Z' }),
  'DELETE /rules/per-user/overrides/user%3Da%252Fb': answer({ version: 9 }),
  'GET /rules/per-user/overrides': answer({ overrides: [override], next: null }),
}

describe('sluice rules override', () => {
  test('sets limits for one caller, in short form and long', async () => {
    const admin = await startAdmin(routes)
    const until = '2027-01-01T00:00:00Z'
    const limits = ['50/second', '{ max: 1000, window: 1h, name: hourly }']
    const words = ['rules', 'override', 'per-user', 'user=u1', ...limits, '--until', until]
    const ran = await admin.run([...words, '--why', 'a launch'])
    expect(ran).toMatchObject({
      code: 0,
      out: 'per-user: user=u1 has 50/second until 2027-01-01T00:00:00Z. Version 8.\n',
    })
    expect(admin.requests[0]?.query).toEqual({ why: 'a launch' })
    expect(JSON.parse(admin.requests[0]?.body ?? '')).toEqual({
      caller: { user: 'u1' },
      limits: ['50/second', { max: 1000, window: '1h', name: 'hourly' }],
      until,
    })
  })

  test('says that an end in the past affects no call', async () => {
    const ended = { ...override, until: '2026-05-31T23:59:59Z' }
    const admin = await startAdmin({
      'POST /rules/per-user/overrides': answer(ended),
      'GET /rules/per-user/overrides': answer({ overrides: [ended], next: null }),
    })
    const words = ['rules', 'override', 'per-user']
    const ran = await admin.run([...words, 'user=u1', '5/hour', '--until', ended.until])
    expect(ran.err).toBe('--until is in the past: the override has no effect.\n')
    expect((await admin.run([...words, '--list'])).out).toContain(`${ended.until} (past)`)
  })

  test('takes none for no limit', async () => {
    const admin = await startAdmin(routes)
    await admin.run(['rules', 'override', 'per-user', 'user=u1', 'none'])
    expect(JSON.parse(admin.requests[0]?.body ?? '')).toEqual({
      caller: { user: 'u1' },
      limits: [],
    })
  })

  test('encodes the caller in the URL with --remove', async () => {
    const admin = await startAdmin(routes)
    const ran = await admin.run(['rules', 'override', 'per-user', 'user=a/b', '--remove'])
    expect(ran).toMatchObject({
      code: 0,
      out: 'per-user: user=a/b has no override now. Version 9.\n',
    })
  })

  test('rejects --remove of an attribute that the rule does not count by as misuse', async () => {
    const admin = await startAdmin(routes)
    const ran = await admin.run(['rules', 'override', 'per-user', 'ip=::1', '--remove'])
    expect(ran).toMatchObject({ code: 2, err: 'caller: found ip=::1; accepted: user=...\n' })
  })

  test('lists overrides with --list, escaped and in columns', async () => {
    const evil = { ...override, caller: { user: '\u001b]0;x\u0007' }, version: 11 }
    const admin = await startAdmin({
      'GET /rules/per-user/overrides': [
        answer({ overrides: [override], next: 'user=u1' }),
        answer({ overrides: [evil], next: 'user=z' }),
      ],
    })
    const ran = await admin.run(['rules', 'override', 'per-user', '--list', '--limit', '2'])
    expect(ran.out).toBe(
      [
        'CALLER                 LIMITS     UNTIL  VERSION',
        'user=u1                50/second  -            8',
        'user=\\u001b]0;x\\u0007  50/second  -           11',
        '',
      ].join('\n'),
    )
    expect(ran.err).toBe('More results: --after user=z\n')
    expect(admin.requests.map(({ query }) => query)).toEqual([
      { limit: '2' },
      { after: 'user=u1', limit: '1' },
    ])
  })

  test.each([
    [['user=u1']],
    [['user=u1', 'none', '5/second']],
    [['user=u1', 'user=u2', '5/second']],
    [['user=u1', '{ max: ']],
    [['User=u1', '5/second']],
    [['user=u1', '--list']],
    [['user=u1', '--list', '--remove']],
    [['user=u1', '5/second', '--remove']],
  ])('rejects %j as misuse, and sends nothing', async (words) => {
    const admin = await startAdmin(routes)
    const ran = await admin.run(['rules', 'override', 'per-user', ...words])
    expect(ran).toMatchObject({ code: 2, out: '' })
    expect(ran.err).toContain('accepted:')
    expect(admin.requests).toEqual([])
  })
})
