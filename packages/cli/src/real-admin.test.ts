/** Commands against the real admin API. */
import { readFileSync } from 'node:fs'
import { beforeEach, describe, expect, test } from 'vitest'
import {
  closeAfterTests,
  ROOT_TOKEN,
  startAdmin,
  type TestAdmin,
} from '../../server/src/entrypoints/admin/admin.test-helper.js'
import { cleanAfterTests, sluice, tempFile, type TerminalOptions } from './cli.test-helper.js'

closeAfterTests()
cleanAfterTests()

let admin: TestAdmin
let url = ''

beforeEach(async () => {
  admin = await startAdmin()
  url = (await admin.listen()).url
})

const run = (line: string, world?: TerminalOptions) =>
  sluice([...line.split(' '), '--url', url, '--token-file', tempFile('token', ROOT_TOKEN)], world)
const json = async (line: string) => JSON.parse((await run(`${line} --json`)).out)

const RULES = `rules:
  - { id: per-user, by: [user], limits: [4/minute] }
  - { id: per-address, by: [ip], limits: [10/minute], match: { where: { user: null } } }
`

describe('with the real admin API', () => {
  test('a set is compared, applied, and then equal', async () => {
    const file = tempFile('rules.yaml', RULES)
    expect(await run(`rules diff -f ${file}`)).toMatchObject({ code: 1 })
    const applied = await run(`rules apply -f ${file} --why a-reason`, { answers: ['y'] })
    expect(applied).toMatchObject({ code: 0, err: '' })
    expect(applied.out).toContain('counters go on: limits token-bucket-1m (max 2 to 4)\n')
    expect(applied.out).toContain('+ per-address  added\n')
    expect(await run(`rules diff -f ${file}`)).toMatchObject({ code: 0, out: 'Nothing changes.\n' })
    const [newest] = (await json('rules history')).versions
    expect(newest).toMatchObject({ why: 'a-reason' })
    const exported = tempFile('export.yaml', '')
    await run(`rules export -o ${exported}`)
    expect(readFileSync(exported, 'utf8')).toContain('id: per-address')
    expect(await run(`rules diff -f ${exported}`)).toMatchObject({ code: 0 })
  })

  test('priorities, classify and shed travel through apply, diff, export, history and rollback', async () => {
    const before = await json('rules history')
    const set = `priorities: [critical, reads]
classify:
  - match:
      path: /pay
    as: critical
shed: { loop: 50ms, keep: [critical], mode: shadow }
rules:
  - id: per-user
    by: [user]
    limits: [2/minute]
  - id: fleet
    by: []
    limits: [100/second]
    headroom: { critical: 20% }
    protects: capacity
`
    const file = tempFile('rules.yaml', set)
    expect((await sluice(['rules', 'validate', '-f', file])).code).toBe(0)
    const applied = await run(`rules apply -f ${file} --yes --why priorities`)
    expect(applied).toMatchObject({ code: 0 })
    for (const line of [
      '~ priorities: [critical, reads]',
      '~ classify: [/pay: critical]',
      '~ shed: { loop: 50ms, keep: [critical], most: 90%, mode: shadow }',
      '+ fleet  added',
    ]) {
      expect(applied.out).toContain(`${line}\n`)
    }
    const { version } = (await json('rules history')).versions[0]
    expect(await run(`rules diff -f ${file}`)).toMatchObject({ code: 0, out: 'Nothing changes.\n' })
    const exported = tempFile('export.yaml', '')
    await run(`rules export -o ${exported}`)
    expect(readFileSync(exported, 'utf8')).toContain('priorities: [critical, reads]\n')
    expect(await run(`rules diff -f ${exported}`)).toMatchObject({ code: 0 })
    expect(await json('check path=/pay user=u1')).toMatchObject({ priority: 'critical' })

    const shed = tempFile('shed.yaml', set.replace('mode: shadow', 'mode: enforce'))
    const diff = await run(`rules diff -f ${shed}`)
    expect(diff.code).toBe(1)
    expect(diff.out).toContain('most: 90%, mode: shadow } -> { loop: 50ms,')
    expect(await run(`rules apply -f ${shed} --shadow --yes`)).toMatchObject({
      code: 1,
      err: expect.stringContaining('shed'),
    })
    const unknown = tempFile('unknown.yaml', set.replace('critical: 20%', 'urgent: 20%'))
    expect(await run(`rules apply -f ${unknown} --yes`)).toMatchObject({
      code: 1,
      err: expect.stringContaining('rule "fleet": headroom.urgent: unknown priority "urgent"'),
    })

    const old = before.versions[0].version
    expect((await run(`rules rollback ${old} --yes`)).code).toBe(0)
    expect(await json('check path=/pay user=u2')).not.toHaveProperty('priority')
    expect((await run(`rules rollback ${version} --yes`)).code).toBe(0)
    expect(await run(`rules diff -f ${file}`)).toMatchObject({ code: 0, out: 'Nothing changes.\n' })
  })

  test('a rule that protects capacity is put into shadow and enforced again by one command each', async () => {
    const rule = '{ id: fleet, by: [], limits: [1/hour], protects: capacity }'
    const file = tempFile('rules.yaml', `priorities: [critical, reads]\nrules: [${rule}]\n`)
    await run(`rules apply -f ${file} --yes`)
    await run('check user=u1')
    expect(await json('check user=u1')).toMatchObject({ allowed: false, reason: 'shed' })
    expect((await run('rules shadow fleet')).code).toBe(0)
    expect(await json('check user=u1')).toMatchObject({ allowed: true, shadow: ['fleet'] })
    expect((await run('rules enforce fleet')).code).toBe(0)
    expect(await json('check user=u1')).toMatchObject({ allowed: false, reason: 'shed' })
  })

  test('a change made before the answer wins, and the loser gets its version', async () => {
    const file = tempFile('rules.yaml', RULES)
    const bob = { by: 'bob', why: undefined }
    const whileAsked = () => admin.editor.patch('per-user', { mode: 'shadow' }, bob, undefined)
    const lost = await run(`rules apply -f ${file}`, { answers: ['y'], beforeAnswer: whileAsked })
    const { version, ...rule } = await json('rules get per-user')
    expect(lost).toMatchObject({
      code: 1,
      err: `The rules were changed by someone else in the meantime, now version ${version}; nothing was changed. Run the command again.\n`,
    })
    expect(rule).toMatchObject({ mode: 'shadow', limits: ['2/minute'] })
    expect(await run(`rules apply -f ${file}`, { answers: ['y'] })).toMatchObject({ code: 0 })
  })

  test('a limit is tightened by one command, which shows the change', async () => {
    const ran = await run('rules set per-user --limits 1/minute --why INC-7', { answers: ['y'] })
    expect(ran).toMatchObject({ code: 0, err: '', prompts: ['Set it? [y/N] '] })
    expect(ran.out).toContain('    limits: [2/minute] -> [1/minute]\n')
    expect(ran.out).toContain('counters go on: limits token-bucket-1m (max 2 to 1)')
    expect(ran.out).toMatch(/Set as version \d+\.\n$/)
    expect(await json('rules get per-user')).toMatchObject({ limits: ['1/minute'] })
    const [newest] = (await json('rules history per-user')).versions
    expect(newest).toMatchObject({ why: 'INC-7' })
    const same = await run('rules set per-user --limits 1/minute --yes')
    expect(same).toMatchObject({ code: 0, out: 'Nothing changes.\n' })
  })

  test('a limit of 0 is set only after a question that explains its effect', async () => {
    const no = await run('rules set per-user --limits 0/minute', { answers: ['n'] })
    expect(no.prompts).toEqual([
      'A limit of rule per-user becomes 0: it refuses every call that it counts. Set it? [y/N] ',
    ])
    expect(no).toMatchObject({ code: 1, err: 'Nothing was changed.\n' })
    const unasked = await run('rules set per-user --limits 0/minute')
    expect(unasked).toMatchObject({
      code: 2,
      err: 'there is no terminal to ask on; accepted: --yes\n',
    })
    expect(await json('rules get per-user')).toMatchObject({ limits: ['2/minute'] })
    const file = tempFile('rules.yaml', RULES.replace('4/minute', '0/minute'))
    const applied = await run(`rules apply -f ${file}`, { answers: [''] })
    expect(applied.prompts).toEqual([
      'A limit of rule per-user becomes 0: it refuses every call that it counts. Apply? [y/N] ',
    ])
    expect(await run('rules set per-user --limits 0/minute --yes')).toMatchObject({ code: 0 })
    expect(await json('rules get per-user')).toMatchObject({ limits: ['0/minute'] })
  })

  test('a tightened limit that refuses no more calls is explained', async () => {
    const bob = { by: 'bob', why: undefined }
    const limits = [{ max: 100, window: '1m', burst: 500 }]
    await admin.editor.patch('per-user', { limits }, bob, undefined)
    const bursts = await run('rules set per-user --limits 3/minute --yes')
    expect(bursts.err).toBe(
      'The burst stays 500: as many calls pass at once, whatever the limit of 3.\n',
    )
    await run('rules shadow --all --for 15m')
    const shadowed = await run('rules set per-user --limits 2/minute --yes')
    expect(shadowed).toMatchObject({ code: 0 })
    expect(shadowed.err).toMatch(/It refuses nothing before \S+Z because it is in shadow; /)
  })

  test('a rule that changes before the answer is not set', async () => {
    const bob = { by: 'bob', why: undefined }
    const whileAsked = () => admin.editor.patch('per-user', { mode: 'shadow' }, bob, undefined)
    const ran = await run('rules set per-user --limits 1/minute', {
      answers: ['y'],
      beforeAnswer: whileAsked,
    })
    expect(ran).toMatchObject({
      code: 1,
      err: expect.stringContaining('changed by someone else in the meantime'),
    })
    expect(await json('rules get per-user')).toMatchObject({ limits: ['2/minute'] })
  })

  test('mode and posture can be set, and an unknown rule or limit is an error', async () => {
    await run('rules set per-user --mode shadow --posture closed --yes')
    expect(await json('rules get per-user')).toMatchObject({ mode: 'shadow', posture: 'closed' })
    expect(await run('rules set per-user --yes')).toMatchObject({ code: 2 })
    expect(await run('rules set nothing --limits 1/minute --yes')).toMatchObject({ code: 1 })
    expect(await run('rules set per-user --limits 10/s --yes')).toMatchObject({ code: 2 })
    expect(await run('rules set per-user --limits 1/1ms --yes')).toMatchObject({ code: 2 })
  })

  test('all rules are put in shadow for a while by one command, and every command shows it', async () => {
    const begun = await run('rules shadow --all --for 15m --why INC-7')
    expect(begun.code).toBe(0)
    expect(begun.out).toMatch(
      /^All enforced rules are in shadow until \S+Z \(.+\)\. Version \d+\.\n/,
    )
    expect(begun.out).toContain('It ends automatically; sluice rules enforce --all ends it now.')
    const list = await run('rules list')
    expect(list.out).toMatch(/^All enforced rules are in shadow until \S+Z\.\n\nID /)
    expect(list.out).toMatch(/per-user +shadow until \S+Z, then enforce/)
    const got = await run('rules get per-user')
    expect(got.out).toMatch(/^# version \d+, 0 overrides, in shadow until \S+Z\n/)
    expect(got.out).not.toContain('shadowUntil')
    const one = await run('rules enforce per-user')
    expect(one.out).toMatch(/^per-user is enforced from \S+Z on\. /)
    expect(one.err).toContain('end it with: sluice rules enforce --all')
    expect((await run('rules history')).out).toMatch(/all rules in shadow until \S+Z +INC-7/)
    const back = await run('rules rollback')
    expect(back.err).not.toContain('in shadow until')
    expect(await run('rules enforce --all')).toMatchObject({ code: 0 })
    expect((await run('rules history')).out).toContain('shadow of all rules ended')
    expect((await run('rules list')).out).toMatch(/per-user +enforce /)
  })

  test('one rule is put in shadow for a while', async () => {
    const begun = await run('rules shadow per-user --for 1h')
    expect(begun.out).toMatch(/^per-user is in shadow until /)
    expect((await run('rules list')).out).toMatch(/^ID .*\nper-user +shadow until /)
    await run('rules enforce per-user')
    expect((await run('rules list')).out).toMatch(/per-user +enforce /)
  })

  test.each([
    'rules shadow',
    'rules shadow --all',
    'rules shadow per-user --all --for 15m',
    'rules enforce',
    'rules enforce per-user --all',
  ])('%s is misuse', async (line) => {
    expect(await run(line)).toMatchObject({ code: 2 })
  })

  test('a timed shadow that is too short or too long is refused with the accepted range', async () => {
    expect(await run('rules shadow --all --for 2d')).toMatchObject({
      code: 1,
      err: expect.stringContaining('a duration from 1m to 24h'),
    })
  })

  test('candidate limits are tried, promoted, and rolled back', async () => {
    const file = tempFile('rules.yaml', RULES)
    expect(await run(`rules apply -f ${file} --shadow --yes`)).toMatchObject({ code: 0 })
    expect(await json('rules get per-user')).toMatchObject({
      limits: ['2/minute'],
      candidate: { limits: ['4/minute'] },
    })
    expect(await json('rules get per-address')).toMatchObject({ mode: 'shadow' })
    const { version } = await json('rules get per-user')
    expect((await run('rules promote per-user')).out).toContain('per-user has 4/minute now.')
    const back = await run(`rules rollback per-user ${version}`, { answers: ['y'] })
    expect(back.code).toBe(0)
    expect(back.out).toContain('limits: [4/minute] -> [2/minute]\n')
    expect(await json('rules get per-user')).toMatchObject({ limits: ['2/minute'] })
  })

  test('a rule in shadow refuses no call, and refuses once enforced', async () => {
    for (const code of [0, 0, 1]) expect(await run('check user=u1')).toMatchObject({ code })
    await run('rules shadow per-user --why INC-7')
    expect(await run('check user=u1')).toMatchObject({ code: 0 })
    await run('rules enforce per-user')
    expect(await run('check user=u1')).toMatchObject({ code: 1 })
  })

  test('one caller has other limits until the override is removed', async () => {
    const set = await run(
      'rules override per-user user=a/b,c 50/minute --until 2030-01-01T00:00:00Z',
    )
    expect(set).toMatchObject({ code: 0, err: '' })
    expect((await run('peek user=a/b,c')).out).toMatch(/per-user +token-bucket-1m +50 of 50 /)
    expect((await run('rules override per-user --list')).out).toContain('user=a/b,c  50/minute')
    expect(await run('rules override per-user user=a/b,c --remove')).toMatchObject({ code: 0 })
    expect((await json('rules override per-user --list')).overrides).toEqual([])
  })

  test('a caller is shown by its hash, and its counter in its stored form', async () => {
    await run('check user=u1')
    const { callers } = await json('peek user=u1')
    const inspected = await json('inspect per-user user=u1')
    expect(inspected).toMatchObject({
      rule: 'per-user',
      caller: { user: 'u1' },
      hash: callers[0].hash,
    })
    expect(inspected.counters).toMatchObject([{ limit: 'token-bucket-1m', remaining: 1 }])
    expect((await run('inspect per-user user=u1')).out).toContain('node        in the process\n')
  })

  test('keys and tokens are created, changed, and removed', async () => {
    const { id, key } = await json('keys add --user acme --plan pro')
    expect(key).toMatch(/^\S{20,}$/)
    expect(await json(`keys disable ${id}`)).toMatchObject({ state: 'disabled' })
    expect((await run('keys list --user acme')).out).toContain('disabled')
    expect(await run(`keys remove ${id}`)).toMatchObject({ code: 0 })
    const csv = tempFile('keys.csv', `sha256,user\n${'ab'.repeat(32)},globex\n`)
    expect(await run(`keys import -f ${csv}`)).toMatchObject({ code: 0 })
    expect(await run(`keys import -f ${csv}`)).toMatchObject({ code: 1 })
    const { id: token } = await json('tokens add ci --role edit')
    expect((await run('tokens list')).out).toContain('ci')
    expect(await run(`tokens remove ${token}`)).toMatchObject({ code: 0 })
  })

  test('the last rule is deleted only with a confirmation', async () => {
    expect(await run('rules delete per-user --yes')).toMatchObject({
      code: 1,
      err: expect.stringContaining('--confirm-last'),
    })
    expect(await run('rules delete per-user --yes --confirm-last')).toMatchObject({ code: 0 })
    expect((await run('rules list')).out).toContain('No rules')
  })

  test('invalid rules get the same messages as from a check without a server', async () => {
    const file = tempFile('bad.yaml', 'rules:\n  - { id: a, by: [ip], limits: [10/s] }\n')
    const here = await run(`rules apply -f ${file} --yes`)
    const offline = await sluice(['rules', 'validate', '-f', file])
    expect(here).toMatchObject({ code: 1, out: '' })
    expect(here.err).toBe(offline.err)
    expect((await run(`rules diff -f ${file}`)).err).toBe(offline.err)
  })

  test('nodes prints where the rules come from', async () => {
    expect((await run('nodes')).out).toContain('rules    version')
  })
})
