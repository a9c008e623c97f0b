/** Sentinels that require a password, each kind on a real set. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RedisSentinelSet, startSentinel } from '../../../../../tools/redis/sentinel.js'
import { waitFor } from '../../../../../tools/redis/wait-for.js'
import { REDIS_CLIENTS } from '../redis-options.js'
import { open, PATIENT, readyChannel } from './drivers.test-helper.js'
import { installedVersion, requireIoredis } from './open-driver.js'

const NODES = 'a-password-of-nodes'
const OWN = 'a-password-of-sentinels'
const SMALL = { replicas: 0, sentinels: 1 }

const withUser = (set: RedisSentinelSet, user: string, parameters = '') =>
  `${set.url.replace('://', `://${user}@`)}${parameters}`

describe('sentinels with their own password', () => {
  let set: RedisSentinelSet
  beforeAll(async () => {
    set = await startSentinel({ ...SMALL, password: NODES, sentinelPassword: OWN })
  })
  afterAll(() => set?.stop())

  test.each(REDIS_CLIENTS)('accept it, and nodes accept theirs, by %s', async (client) => {
    const url = withUser(set, `:${NODES}`, `?sentinelPassword=${OWN}`)
    const { driver, problems } = await open(url, client, PATIENT)
    const channel = await readyChannel(driver)
    expect(channel.address).toBe((await set.primary()).address)
    expect(problems).toEqual([])
  })

  test.each([
    ['no password', '', /NOAUTH/],
    ['that of the nodes', '', /NOAUTH/],
    ['a wrong one', '?sentinelPassword=wrong-secret', /WRONGPASS/],
  ])('refuse %s, which is reported without the password', async (which, parameters, refusal) => {
    const user = which === 'no password' ? set.url : withUser(set, `:${NODES}`, parameters)
    const { driver, problems } = await open(user, 'ioredis')
    await waitFor('A problem', async () => problems.length > 0)
    expect(problems.join('\n')).toMatch(refusal)
    expect(problems.join('\n')).not.toMatch(/wrong-secret|a-password/)
    expect(driver.channelOf(0)).toBeUndefined()
  })
})

test('sentinels with the password of the nodes need no parameter', async () => {
  const set = await startSentinel({ ...SMALL, password: NODES, sentinelPassword: NODES })
  try {
    const { driver, problems } = await open(withUser(set, `:${NODES}`), 'ioredis', PATIENT)
    await readyChannel(driver)
    expect(problems).toEqual([])
  } finally {
    await set.stop()
  }
})

test('sentinels without a password accept a user that only the nodes know', async () => {
  const set = await startSentinel(SMALL)
  try {
    await (await set.primary()).call('ACL', 'SETUSER', 'app', 'on', `>${NODES}`, '~*', '+@all')
    const { driver, problems } = await open(withUser(set, `app:${NODES}`), 'ioredis', PATIENT)
    await readyChannel(driver)
    expect(problems).toEqual([])
  } finally {
    await set.stop()
  }
})

describe('ioredis', () => {
  test('reports its installed version; a missing package has none', () => {
    expect(installedVersion('ioredis')).toMatch(/^\d+\.\d+\.\d+/)
    expect(installedVersion('no-such-package')).toBeUndefined()
  })

  test.each(['4.28.5', '5.0.6', '5.2.6', '5.3.0', '5.3.1'])(
    'is refused in version %s',
    (version) => {
      expect(() => requireIoredis(version)).toThrow(
        `client: found ioredis ${version}; accepted: ioredis 5.3.2 or newer`,
      )
    },
  )

  test.each(['5.3.2', '5.4.0', '5.10.1', '6.0.0', '10.0.0', undefined, 'workspace'])(
    'works in version %s',
    (version) => {
      expect(() => requireIoredis(version)).not.toThrow()
    },
  )
})
