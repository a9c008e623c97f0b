/** The command against the admin API itself: what one says, the other understands. */
import { readFileSync } from 'node:fs'
import { beforeEach, describe, expect, test } from 'vitest'
import {
  closeAfterTests,
  ROOT_TOKEN,
  startAdmin,
  type TestAdmin,
} from '../../server/src/admin/admin.test-helper.js'
import { cleanAfterTests, sluice, tempFile, type World } from './cli.test-helper.js'

closeAfterTests()
cleanAfterTests()

let admin: TestAdmin
let url = ''

beforeEach(async () => {
  admin = await startAdmin()
  url = (await admin.listen()).url
})

const run = (line: string, world?: World) =>
  sluice([...line.split(' '), '--url', url, '--token-file', tempFile('token', ROOT_TOKEN)], world)
const json = async (line: string) => JSON.parse((await run(`${line} --json`)).out)

const RULES = `rules:
  - { id: per-user, by: [user], limits: [4/minute] }
  - { id: per-address, by: [ip], limits: [10/minute], match: { where: { user: null } } }
`

describe('a day of an operator', () => {
  test('a set is compared, applied, and then the same', async () => {
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

  test('somebody who is faster than the answer wins, and the loser is told the version', async () => {
    const file = tempFile('rules.yaml', RULES)
    const bob = { by: 'bob', why: undefined }
    const whileAsked = () => admin.editor.patch('per-user', { mode: 'shadow' }, bob, undefined)
    const lost = await run(`rules apply -f ${file}`, { answers: ['y'], whileAsked })
    const { version, ...rule } = await json('rules get per-user')
    expect(lost).toMatchObject({
      code: 1,
      err: `Somebody changed the rules meanwhile, now version ${version}; nothing was changed. Run it again.\n`,
    })
    expect(rule).toMatchObject({ mode: 'shadow', limits: ['2/minute'] })
    expect(await run(`rules apply -f ${file}`, { answers: ['y'] })).toMatchObject({ code: 0 })
  })

  test('changed limits are tried, promoted, and taken back', async () => {
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

  test('a rule in shadow refuses nobody, and enforced it does', async () => {
    for (const code of [0, 0, 1]) expect(await run('check user=u1')).toMatchObject({ code })
    await run('rules shadow per-user --why INC-7')
    expect(await run('check user=u1')).toMatchObject({ code: 0 })
    await run('rules enforce per-user')
    expect(await run('check user=u1')).toMatchObject({ code: 1 })
  })

  test('one caller has other limits, until it has not', async () => {
    const set = await run(
      'rules override per-user user=a/b,c 50/minute --until 2030-01-01T00:00:00Z',
    )
    expect(set).toMatchObject({ code: 0, err: '' })
    expect((await run('peek user=a/b,c')).out).toMatch(/per-user +token-bucket-1m +50 of 50 /)
    expect((await run('rules override per-user --list')).out).toContain('user=a/b,c  50/minute')
    expect(await run('rules override per-user user=a/b,c --remove')).toMatchObject({ code: 0 })
    expect((await json('rules override per-user --list')).overrides).toEqual([])
  })

  test('a caller is shown by its hash, and its counter as it is stored', async () => {
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

  test('keys and tokens are made, changed, and end', async () => {
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

  test('the last rule goes only if that is meant', async () => {
    expect(await run('rules delete per-user --yes')).toMatchObject({
      code: 1,
      err: expect.stringContaining('--confirm-last'),
    })
    expect(await run('rules delete per-user --yes --confirm-last')).toMatchObject({ code: 0 })
    expect((await run('rules list')).out).toContain('No rules')
  })

  test('bad rules are told as a check without a server tells them', async () => {
    const file = tempFile('bad.yaml', 'rules:\n  - { id: a, by: [ip], limits: [10/s] }\n')
    const here = await run(`rules apply -f ${file} --yes`)
    const offline = await sluice(['rules', 'validate', '-f', file])
    expect(here).toMatchObject({ code: 1, out: '' })
    expect(here.err).toBe(offline.err)
    expect((await run(`rules diff -f ${file}`)).err).toBe(offline.err)
  })

  test('nodes tells where the rules come from', async () => {
    expect((await run('nodes')).out).toContain('rules    version')
  })
})
