import { describe, expect, test } from 'vitest'
import { answer, cleanAfterTests, problem, startAdmin } from '../cli.test-helper.js'

cleanAfterTests()

const caller = {
  rule: 'per-user',
  caller: { user: 'u1' },
  hash: '00ff',
  plan: 'free',
  refusals: 120,
  shadowRefusals: 0,
  candidateRefusals: 0,
  use: 30,
  error: 0,
  zeroSince: '2026-06-01T00:00:00.000Z',
  lastSeen: '2026-06-01T00:06:59.000Z',
  hoursAtLimit: 3,
}

const top = {
  at: '2026-06-01T00:07:00.000Z',
  since: '2026-06-01T00:00:00.000Z',
  by: 'refusals',
  nodes: 2,
  isWhole: true,
  callers: [
    caller,
    {
      ...caller,
      caller: { ip: '192.0.2.1', route: 'GET /a' },
      plan: null,
      refusals: 7,
      zeroSince: null,
      hoursAtLimit: 0,
    },
  ],
}

describe('sluice top', () => {
  test('prints one line for each caller', async () => {
    const admin = await startAdmin({ 'GET /top': answer(top) })
    const ran = await admin.run(['top'])
    expect(ran.code).toBe(0)
    expect(ran.out).toBe(`most refusals; of the last 7 min, on 2 nodes

RULE      CALLER                     PLAN  REFUSALS  USE  AT ZERO    HOURS  SEEN
per-user  user=u1                    free       120   30  for 7 min      3  1 s ago
per-user  ip=192.0.2.1 route=GET /a  -            7   30  -              0  1 s ago
`)
    expect(admin.requests[0]?.query).toEqual({ by: 'refusals', limit: '20' })
  })

  test('prints what is shed at present', async () => {
    const shed = [
      { priority: 'reads', perSecond: 120.5, share: 0.4137 },
      { priority: 'test', perSecond: 30, share: 1 },
    ]
    const admin = await startAdmin({ 'GET /top': answer({ ...top, callers: [], shed }) })
    expect((await admin.run(['top'])).out).toBe(`most refusals; of the last 7 min, on 2 nodes
shed in the last 10 s: reads 41.4 % (120.5/s), test 100 % (30/s)
No callers in this period.
`)
  })

  test('prints the last refused call, and the hash of a caller without a known name', async () => {
    const callers = [
      { ...caller, isEverybody: false, lastRefusedCall: 'GET /v1/orders/:id' },
      { ...caller, isEverybody: false, caller: {}, plan: null, lastRefusedCall: null },
      { ...caller, isEverybody: true, caller: {}, plan: null, lastRefusedCall: null },
    ]
    const admin = await startAdmin({ 'GET /top': answer({ ...top, callers }) })
    expect((await admin.run(['top'])).out).toBe(`most refusals; of the last 7 min, on 2 nodes

RULE      CALLER       PLAN  REFUSALS  LAST REFUSED        USE  AT ZERO    HOURS  SEEN
per-user  user=u1      free       120  GET /v1/orders/:id   30  for 7 min      3  1 s ago
per-user  hash=00ff    -          120  -                    30  for 7 min      3  1 s ago
per-user  all callers  -          120  -                    30  for 7 min      3  1 s ago
`)
  })

  test('prints who would have been refused, how often, and by which rule', async () => {
    const quiet = { ...caller, refusals: 0, zeroSince: null, hoursAtLimit: 0 }
    const callers = [
      caller,
      { ...quiet, caller: { user: 'u2' }, candidateRefusals: 12 },
      { ...quiet, caller: { user: 'u3' }, shadowRefusals: 3, candidateRefusals: 4 },
    ]
    const admin = await startAdmin({ 'GET /top': answer({ ...top, callers }) })
    expect((await admin.run(['top'])).out).toBe(`most refusals; of the last 7 min, on 2 nodes

RULE      CALLER   PLAN  REFUSALS  WOULD BE REFUSED             USE  AT ZERO    HOURS  SEEN
per-user  user=u1  free       120  -                             30  for 7 min      3  1 s ago
per-user  user=u2  free         0  12 by candidate               30  -              0  1 s ago
per-user  user=u3  free         0  3 in shadow, 4 by candidate   30  -              0  1 s ago
`)
    await admin.run(['top', '--by', 'shadow'])
    expect(admin.requests[1]?.query).toEqual({ by: 'shadow', limit: '20' })
  })

  test('prints the same columns as before for a server that does not report would-be refusals', async () => {
    const { shadowRefusals: _shadow, candidateRefusals: _candidate, ...before } = caller
    const admin = await startAdmin({ 'GET /top': answer({ ...top, callers: [before] }) })
    expect((await admin.run(['top'])).out).toContain('REFUSALS  USE  AT ZERO')
  })

  test('requests another order, one rule, and fewer callers', async () => {
    const admin = await startAdmin({ 'GET /top': answer({ ...top, by: 'zero', callers: [] }) })
    const ran = await admin.run(['top', '--by', 'zero', '--rule', 'a', '--limit', '5'])
    expect(admin.requests[0]?.query).toEqual({ by: 'zero', rule: 'a', limit: '5' })
    expect(ran.out).toBe(
      'longest with nothing left; of the last 7 min, on 2 nodes\nNo callers in this period.\n',
    )
  })

  test('prints how much a figure may be too high, if it may', async () => {
    const callers = [{ ...caller, error: 4 }]
    const admin = await startAdmin({ 'GET /top': answer({ ...top, callers }) })
    expect((await admin.run(['top'])).out).toContain('USE  ERROR  AT ZERO')
  })

  test('says that the list does not cover all nodes', async () => {
    const admin = await startAdmin({ 'GET /top': answer({ ...top, nodes: 1, isWhole: false }) })
    expect((await admin.run(['top'])).out.split('\n')[0]).toBe(
      'most refusals; of the last 7 min, of this process alone: what the others saw cannot be ' +
        'read while Redis does not answer',
    )
  })

  test('prints the hash with --wide, which names a caller in alerts and logs', async () => {
    const admin = await startAdmin({ 'GET /top': answer(top) })
    const { out } = await admin.run(['top', '--wide'])
    expect(out).toContain('RULE      CALLER                     HASH  PLAN')
    expect(out).toContain('per-user  user=u1                    00ff  free')
  })

  test('prints no time before it has passed', async () => {
    const zeroSince = '2026-06-01T00:04:00.500Z'
    const callers = [{ ...caller, zeroSince, lastSeen: '2026-06-01T00:06:58.950Z' }]
    const admin = await startAdmin({ 'GET /top': answer({ ...top, callers }) })
    const { out } = await admin.run(['top'])
    expect(out).toContain('for 2 min')
    expect(out).toContain('1 s ago')
  })

  test('escapes caller names, which cannot control a terminal or add lines', async () => {
    const user = '\u001b[2Jx\ny\u202eevil'
    const evil = { ...caller, caller: { user }, plan: '\u0007', lastRefusedCall: `GET /${user}` }
    const admin = await startAdmin({ 'GET /top': answer({ ...top, callers: [evil] }) })
    for (const words of [['top'], ['top', '--json']]) {
      const { out } = await admin.run(words)
      for (const char of '\u001b\u0007\u202e') expect(out).not.toContain(char)
    }
    expect((await admin.run(['top'])).out.split('\n')).toHaveLength(5)
  })

  test("prints the server's answer with --json", async () => {
    const admin = await startAdmin({ 'GET /top': answer(top) })
    expect(JSON.parse((await admin.run(['top', '--json'])).out)).toEqual(top)
  })

  test('polls with --watch, and clears a terminal each time', async () => {
    const admin = await startAdmin({ 'GET /top': answer(top) })
    const ran = await admin.run(['top', '--watch'], { waits: 2, columns: 100 })
    expect(admin.lines()).toEqual(['GET /top', 'GET /top', 'GET /top'])
    expect(ran.out.split('\u001b[H\u001b[2J')).toHaveLength(3)
    const plain = await admin.run(['top', '--watch'], { waits: 1 })
    expect(plain.out).not.toContain('\u001b')
    expect(plain.out.match(/most refusals/g)).toHaveLength(2)
  })

  test('--watch exits 0 when the reader of its output closes it', async () => {
    const admin = await startAdmin({ 'GET /top': answer(top) })
    const ran = await admin.run(['top', '--watch'], { waits: 9, writesRead: 1 })
    expect(ran).toMatchObject({ code: 0, err: '' })
    // The second one met the closed output, and nothing was requested after that.
    expect(admin.requests).toHaveLength(2)
  })

  test('--watch survives a moment without an answer, but not a revoked token', async () => {
    const admin = await startAdmin({
      'GET /top': [
        answer(top),
        { drop: true, body: '' },
        answer(top),
        problem(401, 'unauthorized'),
      ],
    })
    const ran = await admin.run(['top', '--watch'], { waits: 9 })
    expect(admin.requests).toHaveLength(4)
    expect(ran.err).toContain('Could not reach the admin API')
    expect(ran.code).toBe(2)
  })

  test.each([
    ['--by', 'name', 'Allowed choices are refusals, use, zero, hours'],
    ['--limit', '0', '--limit: found "0"; accepted: a whole number from 1'],
  ])('rejects %s %s as misuse', async (flag, value, message) => {
    const admin = await startAdmin({})
    const ran = await admin.run(['top', flag, value])
    expect([ran.code, admin.requests]).toEqual([2, []])
    expect(ran.err).toContain(message)
  })
})

const alert = {
  id: 'breaker-open:10.0.0.5:6379',
  alert: 'breaker-open',
  severity: 'page',
  subject: '10.0.0.5:6379',
  summary: 'Redis is not asked any more.',
  details: {},
  since: '2026-05-31T23:58:00.000Z',
  resolvedAt: null,
  node: 'n1',
  runbook: 'https://example.com/runbook.md#breaker-open',
}

describe('sluice alerts', () => {
  test('exits 0 if none is active', async () => {
    const admin = await startAdmin({ 'GET /alerts': answer({ active: [], recent: [] }) })
    expect(await admin.run(['alerts'])).toMatchObject({ code: 0, out: 'No alert is active.\n' })
  })

  test('exits 1 if one is active, and prints which, since when and what to read', async () => {
    const ended = { ...alert, resolvedAt: '2026-05-31T23:59:00.000Z' }
    const admin = await startAdmin({
      'GET /alerts': answer({ active: [alert], recent: [ended] }),
    })
    const ran = await admin.run(['alerts'])
    expect(ran.code).toBe(1)
    expect(ran.out).toBe(`page  breaker-open 10.0.0.5:6379, for 2 min, seen by n1
  Redis is not asked any more.
  https://example.com/runbook.md#breaker-open

ENDED  ALERT         SUBJECT        SINCE                 UNTIL                 NODE
page   breaker-open  10.0.0.5:6379  2026-05-31T23:58:00Z  2026-05-31T23:59:00Z  n1
`)
    const json = await admin.run(['alerts', '--json'])
    expect([json.code, JSON.parse(json.out)]).toEqual([1, { active: [alert], recent: [ended] }])
  })

  test("prints the caller's name, because the subject has only its hash", async () => {
    const about = {
      ...alert,
      alert: 'caller-exhausted',
      subject: 'per-user/00ff',
      details: { rule: 'per-user', hash: '00ff', caller: ['user=u1', 'ip=192.0.2.1'] },
    }
    const ended = { ...about, resolvedAt: '2026-05-31T23:59:00.000Z' }
    const other = { ...alert, resolvedAt: '2026-05-31T23:59:00.000Z' }
    const admin = await startAdmin({
      'GET /alerts': answer({ active: [about], recent: [ended, other] }),
    })
    const { out } = await admin.run(['alerts'])
    expect(out).toContain('\n  caller: user=u1 ip=192.0.2.1\n')
    expect(out).toContain('SUBJECT        CALLER                SINCE')
    expect(out).toContain('per-user/00ff  user=u1 ip=192.0.2.1  2026')
    expect(out).toContain('10.0.0.5:6379  -                     2026')
  })

  test('escapes text that could control a terminal', async () => {
    const hostile = { ...alert, subject: '\u001b[31m', summary: 'a\nb\u009b' }
    const admin = await startAdmin({ 'GET /alerts': answer({ active: [hostile], recent: [] }) })
    const { out } = await admin.run(['alerts'])
    for (const char of '\u001b\u009b') expect(out).not.toContain(char)
    expect(out.split('\n')).toHaveLength(4)
  })
})

test('sluice nodes prints figures of nodes that report them', async () => {
  const node = { id: 'n1', host: 'a', pid: 7, release: '0.1.0', startedAt: '2026-01-02T03:04:05Z' }
  const seen = { ...node, rulesVersion: 4, seenMsAgo: 800 }
  const figures = { decisionsPerSecond: 12.34, refusalsPerSecond: 0, clockOffsetMs: 1.26 }
  const admin = await startAdmin({
    'GET /nodes': answer({
      version: 4,
      source: 'a file',
      readOnly: null,
      news: null,
      ageSeconds: 0,
      problem: null,
      nodes: [
        { ...seen, ...figures, store: 'memory' },
        { ...seen, id: 'n2', decisionsPerSecond: 1, refusalsPerSecond: 0, clockOffsetMs: null },
        { ...seen, id: 'n3' },
      ],
    }),
  })
  const { out } = await admin.run(['nodes'])
  expect(out).toContain(`SEEN        CALLS/S  REFUSED/S  CLOCK    STORE   PROBLEM
n1    a       7  0.1.0    4      2026-01-02T03:04:05Z  800 ms ago  12.3     0          +1.3 ms  memory  -
n2    a       7  0.1.0    4      2026-01-02T03:04:05Z  800 ms ago  1        0          -        -       -
n3    a       7  0.1.0    4      2026-01-02T03:04:05Z  800 ms ago  -        -          -        -       -
`)
})
