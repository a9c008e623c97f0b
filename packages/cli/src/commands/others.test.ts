import { describe, expect, test } from 'vitest'
import {
  answer,
  cleanAfterTests,
  problem,
  sluice,
  startAdmin,
  tempFile,
  TOKEN,
} from '../cli.test-helper.js'

cleanAfterTests()

const callers = [{ rule: 'per-user', caller: { user: 'u1' }, hash: '0f1e2d3c4b5a6978' }]
const decision = {
  allowed: true,
  reason: 'within',
  rule: 'per-user',
  limitName: 'token-bucket-1s',
  limit: 10,
  remaining: 9,
  resetAfterMs: 100,
  retryAfterMs: 0,
  delayMs: 0,
  shadow: ['exports'],
  source: 'store',
  callers,
}

describe('sluice check', () => {
  test('sends attributes and cost, and prints the decision', async () => {
    const admin = await startAdmin({ 'POST /check': answer(decision) })
    const ran = await admin.run(['check', 'user=u1', 'path=/v1/a?b=c', '--cost', '2'])
    expect(ran.code).toBe(0)
    expect(ran.out).toBe(`allowed    within
rule       per-user, limit token-bucket-1s
remaining  9 of 10
full in    100 ms
shadow     exports
decided    by the store

RULE      CALLER   HASH
per-user  user=u1  0f1e2d3c4b5a6978
`)
    expect(JSON.parse(admin.requests[0]?.body ?? '')).toEqual({
      attributes: { user: 'u1', path: '/v1/a?b=c' },
      cost: 2,
    })
  })

  test('sends a gate instead of a cost with --gate', async () => {
    const admin = await startAdmin({ 'POST /check': answer(decision) })
    expect((await admin.run(['check', 'user=u1', '--gate'])).code).toBe(0)
    const sent = { attributes: { user: 'u1' }, gate: true }
    expect(JSON.parse(admin.requests[0]?.body ?? '')).toEqual(sent)
  })

  test('exits 1 for a refusal, with --json too', async () => {
    const refused = {
      ...decision,
      allowed: false,
      reason: 'over',
      remaining: 0,
      retryAfterMs: 125_000,
      shadow: [],
    }
    const admin = await startAdmin({ 'POST /check': answer(refused) })
    const ran = await admin.run(['check', 'user=u1'])
    expect(ran.code).toBe(1)
    expect(ran.out).toContain('refused    over\n')
    expect(ran.out).toContain('retry in   3 min\n')
    const json = await admin.run(['check', 'user=u1', '--json'])
    expect(json.code).toBe(1)
    expect(JSON.parse(json.out)).toEqual(refused)
  })

  test.each([
    [{ source: 'lease', staleMs: 12 }, 'by the node from a lease, 12 ms old'],
    [{ source: 'local', staleMs: 80.2 }, 'by the node from its own counts, 80 ms old'],
    [{ source: 'local', staleMs: 0 }, 'by the node from its own counts, 0 ms old'],
    [{ source: 'deny-cache', staleMs: 1000 }, 'by the node from a refusal it remembers, 1 s old'],
    [{ source: 'posture' }, 'by posture, without the store'],
    [{ source: 'oracle' }, 'oracle'],
  ])('prints who decided, and how old the data was: %j', async (who, text) => {
    const admin = await startAdmin({ 'POST /check': answer({ ...decision, ...who }) })
    const ran = await admin.run(['check', 'user=u1'])
    expect(ran.out).toContain(`\ndecided    ${text}\n`)
    const json = await admin.run(['check', 'user=u1', '--json'])
    expect(JSON.parse(json.out)).toEqual({ ...decision, ...who })
  })

  test('prints the priority of a call, and who shed it', async () => {
    const shed = { ...decision, allowed: false, reason: 'shed', remaining: 0, retryAfterMs: 2000 }
    const fleet = { ...shed, rule: 'fleet', limit: 80, priority: 'reads', shadow: [], callers: [] }
    const admin = await startAdmin({ 'POST /check': answer(fleet) })
    expect((await admin.run(['check', 'user=u1'])).out).toBe(`refused    shed
priority   reads
rule       fleet, limit token-bucket-1s
remaining  0 of 80
full in    100 ms
retry in   2 s
decided    by the store
`)
    const busy = { ...fleet, rule: null, limitName: null, limit: null, remaining: null }
    const node = await startAdmin({ 'POST /check': answer({ ...busy, source: 'local' }) })
    expect((await node.run(['check', 'user=u1'])).out).toContain(
      'decided   by the node, which is too busy\n',
    )
  })

  test('prints that no rule matched, and not who decided', async () => {
    const unmatched = { allowed: true, reason: 'unmatched', rule: null, source: 'store' }
    const admin = await startAdmin({ 'POST /check': answer({ ...unmatched, callers: [] }) })
    expect((await admin.run(['check', 'user=u1'])).out).toBe('allowed  unmatched\n')
  })

  test.each([['user'], ['=u1'], ['User=u1'], ['user=u1 user=u2']])(
    'rejects %j as misuse',
    async (words) => {
      const admin = await startAdmin({})
      const ran = await admin.run(['check', ...words.split(' ')])
      expect(ran).toMatchObject({ code: 2, out: '' })
      expect(admin.requests).toEqual([])
    },
  )
})

test('sluice peek prints the remaining units of each rule, and the caller', async () => {
  const limit = {
    name: 'token-bucket-1s',
    limit: 10,
    remaining: 9,
    resetAfterMs: 100,
    candidate: false,
  }
  const explain = [
    {
      rule: 'per-user',
      matched: true,
      limits: [limit, { ...limit, candidate: true, remaining: 4 }],
    },
    { rule: 'login', matched: false, why: 'it counts by ip, which is absent', limits: [] },
    ...Array.from({ length: 12 }, (_, i) => ({ rule: `r${i}`, matched: false, why: 'no' })),
  ]
  const admin = await startAdmin({ 'POST /peek': answer({ ...decision, shadow: [], explain }) })
  const ran = await admin.run(['peek', 'user=u1'])
  expect(ran.code).toBe(0)
  expect(
    ran.out.split('\n\n')[1],
  ).toBe(`RULE      LIMIT                        LEFT     FULL IN  CALLER   HASH
per-user  token-bucket-1s              9 of 10  100 ms   user=u1  0f1e2d3c4b5a6978
per-user  token-bucket-1s (candidate)  4 of 10  100 ms   user=u1  0f1e2d3c4b5a6978`)
  const passed = ran.out.split('\n\n')[2]?.split('\n')
  expect(passed?.slice(0, 2)).toEqual(['NOT MET  WHY', 'login    it counts by ip, which is absent'])
  expect(passed?.at(-2)).toBe('and 3 more; --json has all')
})

test('sluice peek prints the ceiling of a priority below others', async () => {
  const limit = { name: 'fixed-window-1s', limit: 100, ceiling: 80, remaining: 3, resetAfterMs: 9 }
  const explain = [{ rule: 'per-user', matched: true, limits: [limit] }]
  const peeked = { ...decision, priority: 'reads', explain }
  const admin = await startAdmin({ 'POST /peek': answer(peeked) })
  const { out } = await admin.run(['peek', 'user=u1'])
  expect(out).toContain('priority   reads\n')
  expect(out).toContain('fixed-window-1s (ceiling 80 of 100)  3 of 80  9 ms')
})

test('sluice peek prints the age of each limit that was not read just now', async () => {
  const limit = { name: 'fixed-window-1m', limit: 10, remaining: 4, resetAfterMs: 9000 }
  const explain = [
    {
      rule: 'per-user',
      matched: true,
      limits: [
        { ...limit, staleMs: 12 },
        { ...limit, remaining: 8, staleMs: 0 },
      ],
    },
  ]
  const all = [...callers, { rule: 'free', caller: {}, hash: '00' }]
  const peeked = { ...decision, source: 'local', staleMs: 12, explain, callers: all }
  const admin = await startAdmin({ 'POST /peek': answer(peeked) })
  const { out } = await admin.run(['peek', 'user=u1'])
  expect(out).toContain('decided    by the node from its own counts, 12 ms old\n')
  expect(
    out.split('\n\n')[1],
  ).toBe(`RULE      LIMIT            LEFT     FULL IN  KNOWN      CALLER       HASH
per-user  fixed-window-1m  4 of 10  9 s      12 ms ago  user=u1      0f1e2d3c4b5a6978
per-user  fixed-window-1m  8 of 10  9 s      now        user=u1      0f1e2d3c4b5a6978
free      no limit         -        -        -          all callers  00
`)
})

test('sluice inspect prints a counter in its stored form', async () => {
  const counter = {
    limit: 'token-bucket-1s',
    where: 'tiers.plan.pro',
    key: 'sluice:{12}:per-user:token-bucket-1s:0f1e',
    partition: 12,
    node: '10.0.0.5:6379',
    state: { level: 3, at: [1, 2] },
    ttlMs: 2000,
    bytes: 96,
    remaining: 7,
    resetAfterMs: 300,
  }
  const block = {
    ...counter,
    key: 'sluice:{12}:0f1f',
    state: { until: 1_767_226_500_000_000, times: 2 },
    resetAfterMs: 600_000,
    block: { sinceMs: 1_767_225_600_000, untilMs: 1_767_226_500_000, times: 2 },
  }
  const empty = { ...counter, where: 'limits', node: null, state: null, ttlMs: null, bytes: null }
  const admin = await startAdmin({
    'POST /inspect': answer({
      rule: 'per-user',
      caller: { user: 'u1' },
      hash: '0f1e',
      counters: [counter, block, empty],
    }),
  })
  const ran = await admin.run(['inspect', 'per-user', 'user=u1', 'plan=pro'])
  expect(ran.out).toBe(`rule    per-user
caller  user=u1
hash    0f1e

limit       token-bucket-1s (tiers.plan.pro)
key         sluice:{12}:per-user:token-bucket-1s:0f1e
partition   12
node        10.0.0.5:6379
state       level 3, at [1,2]
expires in  2 s
bytes       96
left        7
full in     300 ms

block of    token-bucket-1s (tiers.plan.pro)
key         sluice:{12}:0f1f
partition   12
node        10.0.0.5:6379
state       until 1767226500000000, times 2
expires in  2 s
bytes       96
blocked     for 10 min
since       2026-01-01T00:00:00Z
until       2026-01-01T00:15:00Z
in a row    2

limit       token-bucket-1s
key         sluice:{12}:per-user:token-bucket-1s:0f1e
partition   12
node        in the process
state       none: the whole budget is there
expires in  -
bytes       -
left        7
full in     300 ms
`)
  expect(JSON.parse(admin.requests[0]?.body ?? '')).toEqual({
    rule: 'per-user',
    attributes: { user: 'u1', plan: 'pro' },
  })
})

test('sluice nodes prints which nodes are behind', async () => {
  const node = { id: 'n1', host: 'a', pid: 7, release: '0.1.0', startedAt: '2026-01-02T03:04:05Z' }
  const admin = await startAdmin({
    'GET /nodes': answer({
      version: 41,
      source: 'postgres db:5432/sluice',
      readOnly: null,
      news: 'push',
      ageSeconds: 75,
      problem: null,
      nodes: [
        { ...node, rulesVersion: 41, seenMsAgo: 800 },
        { ...node, id: 'n2', rulesVersion: 40, seenMsAgo: 12_340, problem: 'rule "a": bad' },
      ],
    }),
  })
  const { out } = await admin.run(['nodes'])
  expect(out).toBe(`rules      version 41 of postgres db:5432/sluice
changes    pushed to this node at once
confirmed  75 s ago

NODE  HOST  PID  RELEASE  RULES        STARTED               SEEN        PROBLEM
n1    a       7  0.1.0    41           2026-01-02T03:04:05Z  800 ms ago  -
n2    a       7  0.1.0    40 (behind)  2026-01-02T03:04:05Z  12.3 s ago  rule "a": bad
`)
})

test('sluice nodes prints the other regions', async () => {
  const region = {
    isAnswering: true,
    lagMs: 90,
    pending: 3,
    sent: 900,
    unknown: 0,
    dropped: 0,
    seenMsAgo: 400,
    nodes: 5,
    rulesVersion: '41',
    clockOffsetMs: -12,
  }
  const lost = {
    ...region,
    region: 'ap-south',
    isAnswering: false,
    lagMs: 61_000,
    unknown: 7,
    dropped: 21,
    seenMsAgo: null,
    nodes: null,
    rulesVersion: null,
    clockOffsetMs: null,
  }
  const node = { id: 'n1', host: 'a', pid: 7, release: '0.1.0', startedAt: '2026-01-02T03:04:05Z' }
  const admin = await startAdmin({
    'GET /nodes': answer({
      version: 41,
      source: 'postgres db:5432/sluice',
      readOnly: null,
      news: 'push',
      ageSeconds: 0,
      problem: null,
      nodes: [{ ...node, rulesVersion: 41, seenMsAgo: 800 }],
      regions: [lost, { ...region, region: 'us-east' }],
    }),
  })
  const { out } = await admin.run(['nodes'])
  expect(out.split('\n\n').at(-1)).toBe(
    `REGION    STORE            LAG    PENDING  UNKNOWN  DROPPED  NODES  RULES  CLOCK   SEEN
ap-south  does not answer  61 s         3        7       21  -      -      -       never
us-east   answers          90 ms        3        0        0  5      41     -12 ms  400 ms ago
`,
  )
})

test('sluice nodes prints the members of the ring with what they own', async () => {
  const node = { id: 'n1', host: 'a', pid: 7, release: '0.1.0', startedAt: '2026-01-02T03:04:05Z' }
  const member = { member: '10.0.0.1:8083', isAnswering: true, partitions: 66, differsForMs: null }
  const admin = await startAdmin({
    'GET /nodes': answer({
      version: 41,
      source: 'postgres db:5432/sluice',
      readOnly: null,
      news: 'push',
      ageSeconds: 0,
      problem: null,
      nodes: [{ ...node, rulesVersion: 41, seenMsAgo: 800 }],
      ring: [
        member,
        { member: '10.0.0.2:8083', isAnswering: false, partitions: 62, differsForMs: 61_000 },
      ],
    }),
  })
  const { out } = await admin.run(['nodes'])
  expect(out.split('\n\n').at(-1)).toBe(
    `MEMBER         STATE            PARTITIONS  KNOWS
10.0.0.1:8083  answers                  66  the same
10.0.0.2:8083  does not answer          62  others, for 61 s
`,
  )
})

describe('sluice tokens', () => {
  const token = { id: 't1', name: 'ci', role: 'edit', createdAt: '2026-01-02T03:04:05Z' }

  test('add creates a token and shows it once', async () => {
    const admin = await startAdmin({
      'POST /tokens': { status: 201, body: { ...token, token: 'tok' } },
    })
    const ran = await admin.run([
      'tokens',
      'add',
      'ci',
      '--role',
      'edit',
      '--expires',
      '2027-01-01T00:00:00Z',
    ])
    expect(ran.out).toContain('token    tok\nKeep the token now: it is not shown again.\n')
    expect(JSON.parse(admin.requests[0]?.body ?? '')).toEqual({
      name: 'ci',
      role: 'edit',
      expiresAt: '2027-01-01T00:00:00Z',
    })
  })

  test('list and remove print the result', async () => {
    const admin = await startAdmin({
      'GET /tokens': answer({ tokens: [token] }),
      'DELETE /tokens/t1': answer({ version: 3 }),
    })
    expect((await admin.run(['tokens', 'list'])).out).toContain('t1  ci    edit')
    expect((await admin.run(['tokens', 'remove', 't1'])).out).toBe(
      't1 is refused now. Version 3.\n',
    )
  })

  test('add rejects an unknown role as misuse', async () => {
    const ran = await sluice(['tokens', 'add', 'ci', '--role', 'root'])
    expect(ran).toMatchObject({ code: 2, out: '' })
  })
})

describe('every sluice command', () => {
  const COMMANDS = [
    ...[
      'list',
      'get',
      'apply',
      'diff',
      'validate',
      'history',
      'rollback',
      'shadow',
      'enforce',
      'promote',
      'set',
    ].map((name) => `rules ${name}`),
    ...['override', 'export', 'delete', 'adopt'].map((name) => `rules ${name}`),
    ...['list', 'add', 'import', 'disable', 'enable', 'remove', 'set'].map(
      (name) => `keys ${name}`,
    ),
    'tokens list',
    'tokens add',
    'tokens remove',
    'nodes',
    'check',
    'peek',
    'inspect',
  ]

  test.each(COMMANDS)('documents an example, --json and exit codes in --help: %s', async (name) => {
    const { code, out } = await sluice([...name.split(' '), '--help'])
    expect(code).toBe(0)
    expect(out).toContain(`Examples:\n  `)
    expect(out).toContain(`sluice ${name}`)
    expect(out).toContain('--json')
    expect(out).toContain('Exit codes: 0 ')
  })

  test.each([
    ['rules'],
    ['keys'],
    ['tokens'],
    ['rules', 'lst'],
    ['rules', 'get'],
    ['nodes', '--nope'],
    [],
  ])('rejects %j %j as misuse', async (...words) => {
    const { code, out } = await sluice(words)
    expect({ code, out }).toEqual({ code: 2, out: '' })
  })

  test('accepts no token on the command line', async () => {
    expect(await sluice(['nodes', '--token', 'x'])).toMatchObject({ code: 2 })
  })

  test('says where it found a token that is not accepted, and never shows it', async () => {
    const detail = 'Send a token of the admin API as Authorization: Bearer <token>.'
    const admin = await startAdmin({ 'GET /nodes': problem(401, 'unauthorized', { detail }) })
    const file = tempFile('token', TOKEN)
    const ran = await sluice(['nodes', '--url', admin.url, '--token-file', file])
    expect(ran).toMatchObject({
      code: 2,
      out: '',
      err: `${admin.url}: found a token that is not accepted there (${file}). ${detail}\n`,
    })
    expect(ran.err).not.toContain(TOKEN)
  })

  test('names the address that refuses connections, and what to do', async () => {
    const admin = await startAdmin({})
    await admin.close()
    const ran = await admin.run(['nodes'])
    expect(ran).toMatchObject({ code: 2, out: '' })
    expect(ran.err).toContain(`${admin.url}: ECONNREFUSED. Is \`sluice serve\` running`)
    expect(ran.err).toContain('--url')
  })

  test.each([
    ['a server that failed', problem(503, 'rules_unavailable')],
    ['something that is no admin API', answer({ hello: true })],
    ['a token that is not accepted', problem(401, 'unauthenticated')],
  ])(
    'exits 2 without a result for %s: neither a refusal nor a difference',
    async (_who, response) => {
      const admin = await startAdmin({ 'POST /check': response, 'POST /validate': response })
      const file = tempFile('rules.yaml', 'rules: []\n')
      expect(await admin.run(['check', 'user=u1'])).toMatchObject({ code: 2, out: '' })
      expect(await admin.run(['rules', 'diff', '-f', file])).toMatchObject({ code: 2, out: '' })
    },
  )

  test('refuses to send a token in clear to another machine without an explicit option', async () => {
    const file = tempFile('token', TOKEN)
    const ran = await sluice(['nodes', '--url', 'http://sluice.example', '--token-file', file])
    expect(ran).toMatchObject({ code: 2, err: expect.stringContaining('could read the token') })
  })

  test('rejects a missing token file as misuse', async () => {
    const ran = await sluice(['nodes', '--token-file', '/nowhere/token'])
    expect(ran).toMatchObject({ code: 2, err: expect.stringContaining('/nowhere/token') })
  })
})

test('sluice peek prints whose override applies, including a network', async () => {
  const limit = { name: 'own', limit: 10, remaining: 9, resetAfterMs: 100, candidate: false }
  const override = { user: 'u1', ip: '10.0.0.0/8' }
  const explain = [{ rule: 'per-user', matched: true, override, limits: [limit] }]
  const admin = await startAdmin({ 'POST /peek': answer({ ...decision, shadow: [], explain }) })
  const ran = await admin.run(['peek', 'user=u1'])
  expect(ran.out).toContain('user=u1 (override of user=u1 ip=10.0.0.0/8)  0f1e2d3c4b5a6978')
})
