import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../tools/redis/server.mjs'
import { SCRIPT_COMMANDS, STORE_ACL, STORE_COMMANDS, storeAcl } from './store-acl.js'
import { openChannel, type TestChannel } from '../connection/channel.test-helper.js'
import { randomNodeId, heartbeatSender } from './fleet-membership.js'
import { luaScript } from '../connection/run-command.js'
import { channelText, probeKey, storeKeys } from '../protocol/redis-keys.js'
import { agreeOnSecret, fingerprintOf, renewSecret } from './hash-secret.js'
import { checkRights, PACKED_COMMANDS, PLAIN_COMMANDS } from './check-rights.js'
import { checkStore } from './start-checks.js'

const LUA_FOLDER = new URL('../../lua/', import.meta.url)

/** The commands that a script names. */
function commandsIn(source: string): readonly string[] {
  const code = source.replace(/--.*$/gm, '')
  const calls = code.matchAll(/[cC]all\(\s*'(\w+)'(?:,\s*'([A-Z]+)',)?/g)
  return [...calls].map(([, name = '', sub = '']) =>
    name === 'OBJECT' ? `object|${sub.toLowerCase()}` : name.toLowerCase(),
  )
}

describe('the rights of the store', () => {
  test('cover all commands that scripts call, and nothing more', () => {
    const files = readdirSync(LUA_FOLDER, { recursive: true, encoding: 'utf8' }).filter((file) =>
      file.endsWith('.lua'),
    )
    const called = files.flatMap((file) =>
      commandsIn(readFileSync(new URL(file, LUA_FOLDER), 'utf8')),
    )
    expect([...new Set(called)].toSorted()).toEqual([...SCRIPT_COMMANDS].toSorted())
  })

  test('reach no other prefix, and no command that lists keys or changes the server', () => {
    expect(STORE_ACL).toBe(storeAcl('sluice'))
    expect(STORE_ACL).toMatch(/^~sluice:\* resetchannels &sluice:\* -@all (\+[a-z|]+ ?)+$/)
    const dangerous = ['keys', 'scan', 'flushall', 'config', 'config|get', 'script', 'debug', 'acl']
    expect(STORE_COMMANDS.filter((command) => dangerous.includes(command))).toEqual([])
  })
})

describe('a user with exactly these rights', () => {
  const user = { username: 'limiter', password: 'a-password-for-tests' }
  let server: RedisServer
  let channel: TestChannel

  beforeAll(async () => {
    server = await startRedis()
    const words = ['on', `>${user.password}`, ...STORE_ACL.split(' ')]
    await server.call('ACL', 'SETUSER', user.username, 'reset', ...words)
    channel = await openChannel(server.port, user)
  })
  afterAll(async () => {
    channel?.close()
    await server?.stop()
  })
  beforeEach(async () => {
    await server.pipeline([['FLUSHALL'], ['ACL', 'LOG', 'RESET']])
  })

  /** The commands refused to the user; a client introduces itself, which may be refused. */
  async function refused(): Promise<readonly string[]> {
    const log = (await server.call('ACL', 'LOG')) as readonly (readonly string[])[]
    return log.map((entry) => String(entry[entry.indexOf('object') + 1]))
  }

  test.each(['plain', 'packed'] as const)('may check the store (%s)', async (layout) => {
    const { warnings } = await checkStore(channel.run, {
      address: server.address,
      topology: 'standalone',
      allowEviction: false,
      layout,
      probeKey: probeKey('sluice', 'home'),
    })
    expect(warnings).toEqual([expect.stringContaining('maxmemory is 0')])
    // It is tried, because it cannot be known beforehand, and the check goes on without it.
    expect(await refused()).toEqual(['config|get'])
  })

  test('may agree on a secret, renew it, and send heartbeats', async () => {
    const secret = await agreeOnSecret(channel.run, { prefix: 'sluice' })
    await renewSecret(channel.run, { prefix: 'sluice', secret, isConfigured: false })
    const beat = heartbeatSender(channel.run, { prefix: 'sluice', node: randomNodeId() })
    const future = String(Date.now() + 3_600_000)
    await server.call('ZADD', storeKeys('sluice').fleet, future, 'another')
    expect(await beat(120_000)).toMatchObject({ nodes: 2, fingerprint: fingerprintOf(secret) })
    expect(await beat(0)).toMatchObject({ nodes: 1, wasKnown: true })
    expect(await refused()).toEqual([])
  })

  test('may publish on the channel of its prefix, and on no other', async () => {
    expect(await channel.run(['PUBLISH', channelText('sluice'), 'x'])).toBe(0)
    const other = channel.run(['PUBLISH', channelText('other'), 'x'])
    await expect(other).rejects.toThrow('NOPERM')
  })

  test.each(['plain', 'packed'] as const)(
    'has every right that is checked (%s)',
    async (layout) => {
      const place = { address: server.address, layout, probeKey: probeKey('sluice', 'home') }
      await checkRights(channel.run, place)
      expect(await refused()).toEqual([])
      expect(await server.call('DBSIZE')).toBe(0)
    },
  )

  test('may not touch another prefix', async () => {
    await expect(agreeOnSecret(channel.run, { prefix: 'other' })).rejects.toThrow('NOPERM')
    const beat = heartbeatSender(channel.run, { prefix: 'other', node: randomNodeId() })
    await expect(beat(1500)).rejects.toThrow('NOPERM')
  })

  test('may run no other command', async () => {
    await expect(channel.run(['KEYS', '*'])).rejects.toThrow('NOPERM')
    await expect(channel.run(['FLUSHALL'])).rejects.toThrow('NOPERM')
  })
})

test('every right that scripts need is checked at the start', () => {
  const names = [...PLAIN_COMMANDS, ...PACKED_COMMANDS].map((text) => {
    const [name = '', sub = ''] = text.split(' ')
    return name === 'object' ? `${name}|${sub}` : name
  })
  expect([...new Set(names)].toSorted()).toEqual([...SCRIPT_COMMANDS, 'expire'].toSorted())
})

test.each(['time', 'zadd', 'set', 'evalsha'])('a user without +%s is refused', async (name) => {
  const server = await startRedis()
  const user = { username: 'limiter', password: 'a-password-for-tests' }
  const words = ['on', `>${user.password}`, ...STORE_ACL.split(' '), `-${name}`]
  await server.call('ACL', 'SETUSER', user.username, 'reset', ...words)
  const channel = await openChannel(server.port, user)
  try {
    const place = { address: 'a:1', layout: 'plain', probeKey: probeKey('sluice', 'home') } as const
    await expect(checkRights(channel.run, place)).rejects.toMatchObject({
      code: 'STORE_REFUSED',
      message: expect.stringMatching(
        new RegExp(
          `^Redis at a:1: the user may not run ${name}.*; accepted: a user with the rights`,
        ),
      ),
    })
  } finally {
    channel.close()
    await server.stop()
  }
})

test('before Redis 7 each command is tried, which does no harm', async () => {
  const server = await startRedis()
  const user = { username: 'limiter', password: 'a-password-for-tests' }
  const words = ['on', `>${user.password}`, ...STORE_ACL.split(' ')]
  await server.call('ACL', 'SETUSER', user.username, 'reset', ...words)
  const channel = await openChannel(server.port, user)
  const old = luaScript('rights').source.replaceAll('redis.acl_check_cmd', 'redis.no_such_function')
  const tryAll = async () => {
    const reply = await channel.run(['EVAL', old, 1, probeKey('sluice', 'home'), ...PLAIN_COMMANDS])
    return Array.isArray(reply) ? reply.map(String) : reply
  }
  try {
    expect(await tryAll()).toEqual([])
    expect(await server.call('DBSIZE')).toBe(0)
    await server.call('ACL', 'SETUSER', user.username, '-time', '-zadd')
    expect(await tryAll()).toEqual(['time', 'zadd'])
    expect(await server.call('DBSIZE')).toBe(0)
  } finally {
    channel.close()
    await server.stop()
  }
})

test('the guide names exactly these rights', () => {
  const file = new URL('../../../../../docs/guides/redis.md', import.meta.url)
  const guide = readFileSync(file, 'utf8').replaceAll(/\s+/g, ' ')
  expect(guide).toContain(`ACL SETUSER sluice on >password ${STORE_ACL}`)
})
