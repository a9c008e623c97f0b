import { describe, expect, test } from 'vitest'
import { answer, cleanAfterTests, problem, startAdmin } from '../cli.test-helper.js'

cleanAfterTests()

const rule = {
  id: 'per-user',
  by: ['user'],
  limits: [
    '10/second',
    { algorithm: 'sliding-window-counter', max: 1000, window: '1h', name: 'hourly' },
  ],
  version: 7,
  overrideCount: 2,
}

describe('sluice rules shadow and enforce', () => {
  test.each([
    ['shadow', 'per-user is in shadow now. Version 7.\n'],
    ['enforce', 'per-user is enforced now. Version 7.\n'],
  ])('%s sends one patch of the mode', async (mode, out) => {
    const admin = await startAdmin({ 'PATCH /rules/per-user': answer(rule) })
    const ran = await admin.run(['rules', mode, 'per-user', '--why', 'INC-7'])
    expect(ran).toMatchObject({ code: 0, out, err: '' })
    expect(admin.requests).toMatchObject([
      { body: JSON.stringify({ mode }), query: { why: 'INC-7' } },
    ])
  })

  test("exit 1 for an unknown rule, with the server's message", async () => {
    const detail = 'rule: found "x"; accepted: the id of a rule'
    const admin = await startAdmin({ 'PATCH /rules/x': problem(404, 'rule_unknown', { detail }) })
    const ran = await admin.run(['rules', 'shadow', 'x'])
    expect(ran).toMatchObject({ code: 1, out: '', err: `${detail} (rule_unknown)\n` })
  })
})

test('sluice rules promote asks before it activates a candidate of 0', async () => {
  const candidate = { limits: ['0/second'] }
  const admin = await startAdmin({
    'GET /rules/per-user': answer({ ...rule, candidate }),
    'POST /rules/per-user/promote': answer({ ...rule, limits: ['0/second'] }),
  })
  const no = await admin.run(['rules', 'promote', 'per-user'], { answers: ['n'] })
  expect(no.code).toBe(1)
  expect(no.prompts[0]).toContain('it refuses every call that it counts. Promote it?')
  expect(await admin.run(['rules', 'promote', 'per-user'])).toMatchObject({ code: 2 })
  expect(admin.lines()).toEqual(['GET /rules/per-user', 'GET /rules/per-user'])
  expect(await admin.run(['rules', 'promote', 'per-user', '--yes'])).toMatchObject({ code: 0 })
})

test('sluice rules promote prints the active limits', async () => {
  const admin = await startAdmin({
    'GET /rules/per-user': answer(rule),
    'POST /rules/per-user/promote': answer(rule),
  })
  const ran = await admin.run(['rules', 'promote', 'per-user'])
  expect(ran.out).toBe(
    'per-user has 10/second and 1000/hour sliding-window-counter hourly now. Version 7.\n',
  )
})

describe('sluice rules delete', () => {
  const routes = {
    'GET /rules/per-user': answer(rule),
    'DELETE /rules/per-user': answer({ version: 8 }),
  }

  test('asks, and deletes the version that it read', async () => {
    const admin = await startAdmin(routes)
    const ran = await admin.run(['rules', 'delete', 'per-user'], { answers: ['y'] })
    expect(ran).toMatchObject({ code: 0, prompts: ['Delete per-user and its 2 overrides? [y/N] '] })
    expect(admin.requests.at(-1)).toMatchObject({ method: 'DELETE', ifMatch: '"7"', query: {} })
  })

  test('says how to confirm the deletion of the last rule', async () => {
    const asks = problem(409, 'confirmation_needed', { detail: 'Confirm that it is meant' })
    const admin = await startAdmin({ ...routes, 'DELETE /rules/per-user': asks })
    const ran = await admin.run(['rules', 'delete', 'per-user', '--yes'])
    expect(ran).toMatchObject({
      code: 1,
      err: 'this leaves no rule at all, so that every call is allowed; accepted: --confirm-last, if that is meant\n',
    })
    await admin.run(['rules', 'delete', 'per-user', '--yes', '--confirm-last'])
    expect(admin.requests.at(-1)?.query).toEqual({ confirm: 'last-rule' })
  })

  test('requires --yes without a terminal', async () => {
    const admin = await startAdmin(routes)
    expect(await admin.run(['rules', 'delete', 'per-user'])).toMatchObject({ code: 2 })
    expect(admin.requests).toEqual([])
  })
})

describe('sluice rules rollback', () => {
  const document = (limits: readonly string[]) => ({ id: 'per-user', by: ['user'], limits })
  const past = (version: number, changes: readonly object[]) => ({
    version,
    at: '2026-01-02T03:04:05.678Z',
    by: 'ann',
    why: 'INC-7',
    changeCount: changes.length,
    changes,
  })
  const versions = [
    past(7, [
      {
        kind: 'rule',
        id: 'per-user',
        before: document(['5/second']),
        after: document(['2/second']),
      },
      { kind: 'override', id: 'per-user/user=u1', before: null, after: { caller: { user: 'u1' } } },
    ]),
    past(6, [
      {
        kind: 'rule',
        id: 'per-user',
        before: document(['10/second']),
        after: document(['5/second']),
      },
    ]),
    past(5, []),
  ]
  const change = {
    id: 'per-user',
    change: 'changed',
    fields: [{ field: 'limits', before: '[2/second]', after: '[10/second]' }],
    counters: [{ where: 'limits', limit: 'l', counters: 'go on', what: 'max 2 to 10' }],
    overrides: { added: 0, changed: 0, removed: 1 },
  }
  const done = { version: 8, diff: { set: [], rules: [change] }, warnings: [] }
  const routes = {
    'GET /rules/per-user': answer(rule),
    'GET /rules/per-user/versions': answer({ versions, next: null }),
    'GET /rules': answer({ version: 7, routes: [], strictPaths: false, rules: [], next: null }),
    'GET /versions': answer({ versions, next: null }),
    'POST /rollback': answer(done),
    'POST /rules/per-user/rollback': answer(done),
  }

  test('shows what it reverts, asks, and sends the version it read', async () => {
    const admin = await startAdmin(routes)
    const ran = await admin.run(['rules', 'rollback', 'per-user', '5'], { answers: ['y'] })
    expect(ran.code).toBe(0)
    expect(ran.out).toBe(
      `This undoes:
VERSION  AT                    BY   WHAT                                                    WHY
      7  2026-01-02T03:04:05Z  ann  rule per-user changed, override per-user/user=u1 added  INC-7
      6  2026-01-02T03:04:05Z  ann  rule per-user changed                                   INC-7

~ per-user  changed
    limits: [2/second] -> [10/second]
    counters go on: limits l (max 2 to 10)
    overrides: 1 removed
Rules: 1 changed.
As in version 5, now version 8.
`,
    )
    expect(ran.prompts).toEqual(['Go back to version 5? [y/N] '])
    const asked = { path: '/rules/per-user/rollback', body: '{"version":5}', ifMatch: '"7"' }
    expect(admin.requests.filter(({ method }) => method === 'POST')).toMatchObject([
      { ...asked, query: { dryRun: 'true' } },
      { ...asked, query: {} },
    ])
  })

  test('does not list versions of keys and tokens, which stay unchanged', async () => {
    const keys = past(8, [{ kind: 'key', id: 'k_1', before: null, after: {} }])
    const admin = await startAdmin({
      ...routes,
      'GET /versions': answer({ versions: [keys, ...versions], next: null }),
    })
    const ran = await admin.run(['rules', 'rollback', '5'], { answers: ['n'] })
    expect(ran.out).toContain('rule per-user changed')
    expect(ran.out).not.toContain('k_1')
  })

  test('does not ask if there is nothing to revert', async () => {
    const nothing = { version: 7, diff: { set: [], rules: [] }, warnings: [] }
    const admin = await startAdmin({ ...routes, 'POST /rollback': answer(nothing) })
    const ran = await admin.run(['rules', 'rollback', '7'], { answers: [] })
    expect(ran).toMatchObject({ code: 0, prompts: [], out: expect.stringContaining('version 7') })
    expect(admin.requests.at(-1)?.query).toEqual({ dryRun: 'true' })
  })

  test('sends the version of the set for all rules, and changes nothing if the answer is no', async () => {
    const admin = await startAdmin(routes)
    const no = await admin.run(['rules', 'rollback', '5'], { answers: ['n'] })
    expect(no).toMatchObject({ code: 1, err: 'Nothing was changed.\n' })
    expect(admin.requests.at(-1)?.path).toBe('/versions')
    const yes = await admin.run(['rules', 'rollback', '5', '--yes', '--json'])
    expect(JSON.parse(yes.out)).toMatchObject({ version: 8 })
    expect(admin.requests.at(-1)).toMatchObject({ path: '/rollback', ifMatch: '"7"' })
  })

  test('restores a deleted rule', async () => {
    const admin = await startAdmin({
      ...routes,
      'GET /rules/per-user': problem(404, 'rule_unknown'),
    })
    expect(await admin.run(['rules', 'rollback', 'per-user', '5', '-y'])).toMatchObject({ code: 0 })
    expect(admin.requests.at(-1)?.ifMatch).toBeUndefined()
  })

  test('lists the versions if none is given, and goes back to the chosen one', async () => {
    const kept = past(5, [
      { kind: 'rule', id: 'per-user', before: null, after: document(['10/second']) },
    ])
    const admin = await startAdmin({
      ...routes,
      'GET /rules/per-user/versions': answer({
        versions: [...versions.slice(0, 2), kept],
        next: null,
      }),
    })
    const ran = await admin.run(['rules', 'rollback', 'per-user'], { answers: ['7', '5', 'y'] })
    expect(ran.prompts).toEqual([
      'Roll back to version: ',
      'Roll back to version: ',
      'Go back to version 5? [y/N] ',
    ])
    expect(ran.err).toContain('Versions of per-user; version 7 is the current one:')
    expect(ran.err).toContain('Found "7"; accepted: one of the versions above, or nothing to stop.')
    expect(ran).toMatchObject({ code: 0, out: expect.stringContaining('As in version 5') })
  })

  test('changes nothing if the user chooses no version', async () => {
    const admin = await startAdmin(routes)
    const ran = await admin.run(['rules', 'rollback'], { answers: [''] })
    expect(ran).toMatchObject({ code: 1, err: expect.stringContaining('Nothing was changed.') })
    expect(admin.lines()).toEqual(['GET /versions'])
  })

  test('exits 2 and lists the versions if none is given and there is no terminal', async () => {
    const admin = await startAdmin(routes)
    const ran = await admin.run(['rules', 'rollback', 'per-user', '--yes'])
    expect(ran.code).toBe(2)
    expect(ran.err).toContain('accepted: sluice rules rollback per-user <version>\nVERSION')
    expect(ran.err).toContain('      6  2026-01-02T03:04:05Z  ann')
    expect(ran.err).not.toContain('      7  ')
  })

  test('reports that there is no earlier version', async () => {
    const only = { versions: versions.slice(0, 1), next: null }
    const admin = await startAdmin({ ...routes, 'GET /rules/per-user/versions': answer(only) })
    const ran = await admin.run(['rules', 'rollback', 'per-user'], { answers: [] })
    expect(ran).toMatchObject({
      code: 2,
      prompts: [],
      err: 'found no earlier version of per-user to go back to; see rules history\n',
    })
  })

  test.each([['0'], ['per-user', '1.5'], ['a', 'b', '3']])(
    'rejects %j %j %j as misuse',
    async (...words) => {
      const admin = await startAdmin(routes)
      const ran = await admin.run(['rules', 'rollback', '-y', ...words])
      expect(ran.code).toBe(2)
      expect(admin.requests).toEqual([])
    },
  )
})

test('sluice rules adopt explains its effect, and asks', async () => {
  const admin = await startAdmin({
    'GET /nodes': answer({ version: 7, problem: 'the store went back to version 5', nodes: [] }),
    'POST /adopt': answer({ version: 9 }),
  })
  const ran = await admin.run(['rules', 'adopt', '--why', 'restored'], { answers: ['y'] })
  expect(ran).toMatchObject({ code: 0, err: 'the store went back to version 5\n' })
  expect(admin.requests.at(-1)).toMatchObject({ path: '/adopt', query: { why: 'restored' } })
})
