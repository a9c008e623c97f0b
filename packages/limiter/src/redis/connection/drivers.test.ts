import { describe, expect, onTestFinished, test } from 'vitest'
import {
  type RedisOptions,
  type RedisServer,
  startRedis,
} from '../../../../../tools/redis/server.mjs'
import { waitFor } from '../../../../../tools/redis/wait-for.js'
import { wordsCommand } from './run-command.js'
import { RedisConnectionError, RedisReplyError } from './driver.js'
import { REDIS_CLIENTS } from '../redis-options.js'
import { ask, askAll, open, PATIENT, readyChannel, textOf } from './drivers.test-helper.js'

async function start(options: RedisOptions = {}): Promise<RedisServer> {
  const server = await startRedis(options)
  onTestFinished(() => server.stop())
  return server
}

describe.each(REDIS_CLIENTS)('one Redis by %s', (client) => {
  test('connects and answers', async () => {
    const server = await start()
    const { driver, readies, problems } = await open(server.url, client, PATIENT)
    expect(driver.topology).toBe('standalone')
    const channel = await readyChannel(driver)
    expect(channel.address).toBe(server.address)
    expect(readies).toEqual([server.address])
    expect(driver.channelOf(16_383)).toBe(channel)
    expect(driver.channelAt(server.address)).toBe(channel)
    expect(driver.channelAt('127.0.0.1:1')).toBeUndefined()
    expect(driver.channels()).toEqual([channel])
    expect(await ask(channel, 'PING')).toEqual(Buffer.from('PONG'))
    expect(problems).toEqual([])
  })

  test('returns strings as bytes, numbers as numbers, and nil as null', async () => {
    const server = await start()
    const { driver } = await open(server.url, client, PATIENT)
    const channel = await readyChannel(driver)
    const bytes = Buffer.from([0, 255, 13, 10, 36, 195])
    expect(await ask(channel, 'SET', bytes, bytes)).toEqual(Buffer.from('OK'))
    expect(await ask(channel, 'GET', bytes)).toEqual(bytes)
    expect(await ask(channel, 'INCR', 'n')).toBe(1)
    expect(await ask(channel, 'GET', 'none')).toBeNull()
    expect(await ask(channel, 'SET', 'é', '')).toEqual(Buffer.from('OK'))
    expect(await ask(channel, 'GET', 'é')).toEqual(Buffer.alloc(0))
    const script = "return {1, 'two', {3, 'four', false}, {}, redis.status_reply('FIVE')}"
    expect(await ask(channel, 'EVAL', script, '0')).toEqual([
      1,
      Buffer.from('two'),
      [3, Buffer.from('four'), null],
      [],
      Buffer.from('FIVE'),
    ])
  })

  test('answers several commands in order, with errors in their places', async () => {
    const server = await start()
    const { driver } = await open(server.url, client, PATIENT)
    const channel = await readyChannel(driver)
    const commands = Array.from({ length: 500 }, (_, at) =>
      at % 7 === 3 ? ['LPOP', 'n', 'x', 'y'] : ['INCR', 'n'],
    )
    const replies = await askAll(channel, commands)
    let count = 0
    for (const [at, reply] of replies.entries()) {
      if (at % 7 === 3) expect(reply).toBeInstanceOf(RedisReplyError)
      else expect(reply).toBe((count += 1))
    }
    expect(textOf(replies[3] ?? null)).toMatch(/^RedisReplyError: ERR wrong number of arguments/)
    const error = await ask(channel, 'EVALSHA', '0'.repeat(40), '0')
    expect(textOf(error)).toBe('RedisReplyError: NOSCRIPT No matching script. Please use EVAL.')
    expect(channel.send([], () => {})).toBe(true)
  })

  test('accepts a command larger than a socket buffer', async () => {
    const server = await start()
    const { driver } = await open(server.url, client, PATIENT)
    const channel = await readyChannel(driver)
    const large = Buffer.alloc(3_000_000, 'x')
    const replies = await askAll(channel, [
      ['SET', 'a', large],
      ['GET', 'a'],
      ['SET', 'b', large],
      ['STRLEN', 'b'],
    ])
    expect(replies.map((reply) => (Buffer.isBuffer(reply) ? reply.length : reply))).toEqual([
      2, 3_000_000, 2, 3_000_000,
    ])
  })

  test('uses user, password and database', async () => {
    const server = await start({ password: 'p@ss/wörd' })
    await server.call('ACL', 'SETUSER', 'app', 'on', '>se:cret', '~*', '+@all')
    const named = `redis://app:${encodeURIComponent('se:cret')}@${server.address}/3`
    const first = await readyChannel((await open(named, client, PATIENT)).driver)
    expect(textOf(await ask(first, 'ACL', 'WHOAMI'))).toBe('app')
    await ask(first, 'SET', 'where', 'three')
    const second = await readyChannel((await open(server.url, client, PATIENT)).driver)
    expect(textOf(await ask(second, 'ACL', 'WHOAMI'))).toBe('default')
    expect(await ask(second, 'GET', 'where')).toBeNull()
    await ask(second, 'SELECT', '3')
    expect(textOf(await ask(second, 'GET', 'where'))).toBe('three')
  })

  test('reports a wrong password once, without the password', async () => {
    const server = await start({ password: 'right' })
    const url = `redis://:secret@${server.address}`
    const { driver, problems, readies } = await open(url, client, PATIENT)
    await waitFor('A problem', async () => problems.length > 0)
    expect(driver.channelOf(0)?.isReady).toBe(false)
    expect(problems[0]).toMatch(/^Redis 127\.0\.0\.1:\d+: WRONGPASS /)
    expect(problems.join()).not.toContain('secret')
    // The connection is accepted as soon as the server has the same password.
    await server.call('CONFIG', 'SET', 'requirepass', 'secret')
    await readyChannel(driver)
    expect(readies).toHaveLength(1)
    expect(problems).toHaveLength(1)
  })

  test('works with a server that requires no password, and reports that', async () => {
    const server = await start()
    const { driver, problems } = await open(`redis://:secret@${server.address}`, client, PATIENT)
    await readyChannel(driver)
    expect(problems).toEqual([
      `Redis ${server.address}: The URL has a password, but the server requires none`,
    ])
  })

  test('reports an invalid database', async () => {
    const server = await start()
    const { driver, problems } = await open(`${server.url}/99`, client, PATIENT)
    await waitFor('A problem', async () => problems.length > 0)
    expect(problems[0]).toContain('ERR DB index is out of range')
    expect(driver.channelOf(0)?.isReady).toBe(false)
  })

  test('connects once it is started', async () => {
    const server = await start()
    await server.kill()
    const { driver, problems, readies } = await open(server.url, client, PATIENT)
    await waitFor('A problem', async () => problems.length > 0)
    const channel = driver.channelOf(0)
    expect(channel?.isReady).toBe(false)
    expect(channel?.send([wordsCommand(['PING'])], () => expect.unreachable())).toBe(false)
    expect(problems[0]).toContain('ECONNREFUSED')
    await server.start()
    await readyChannel(driver)
    expect(readies).toHaveLength(1)
    expect(problems).toHaveLength(1)
  })

  test('settles outstanding commands when it is killed, and reconnects when it is back', async () => {
    const server = await start()
    const { driver, readies } = await open(server.url, client, PATIENT)
    const channel = await readyChannel(driver)
    server.pause()
    const outstanding = [
      askAll(channel, [
        ['INCR', 'a'],
        ['INCR', 'b'],
      ]),
      askAll(channel, [['INCR', 'c']]),
    ]
    await server.kill()
    for (const reply of (await Promise.all(outstanding)).flat()) {
      expect(reply).toBeInstanceOf(RedisConnectionError)
    }
    expect(channel.isReady).toBe(false)
    expect(channel.send([wordsCommand(['PING'])], () => expect.unreachable())).toBe(false)
    await server.start()
    expect(await readyChannel(driver)).toBe(channel)
    expect(readies).toEqual([server.address, server.address])
    expect(textOf(await ask(channel, 'PING'))).toBe('PONG')
    expect(await ask(channel, 'GET', 'a')).toBeNull()
  })

  test('becomes ready only after it has loaded its data', async () => {
    const server = await start({
      config: ['--key-load-delay', '2000', '--loading-process-events-interval-bytes', '1024'],
    })
    await server.pipeline(
      Array.from({ length: 500 }, (_, at) => ['SET', `key${at}`, 'x'.repeat(2000)]),
    )
    await server.call('SAVE')
    await server.kill()
    const { driver } = await open(server.url, client, PATIENT)
    await server.start()
    const channel = await readyChannel(driver)
    expect(await ask(channel, 'DBSIZE')).toBe(500)
  })

  test('answers after a pause of its process', async () => {
    const server = await start()
    const { driver, readies } = await open(server.url, client, PATIENT)
    const channel = await readyChannel(driver)
    server.pause()
    const reply = ask(channel, 'INCR', 'a')
    expect(channel.isReady).toBe(true)
    server.resume()
    expect(await reply).toBe(1)
    expect(readies).toHaveLength(1)
  })

  test('allows giving up a paused process, and reconnects when it continues', async () => {
    const server = await start()
    const options = { connectTimeoutMs: 100 }
    const { driver, readies, problems } = await open(server.url, client, options)
    const channel = await readyChannel(driver)
    server.pause()
    const reply = ask(channel, 'PING')
    channel.reconnect()
    expect(channel.isReady).toBe(false)
    expect(await reply).toBeInstanceOf(RedisConnectionError)
    // Several attempts time out: the kernel connects, but the server does not answer.
    await waitFor('A try that is given up', async () =>
      problems.some((problem) => problem.includes('No answer within 100 ms')),
    )
    expect(channel.isReady).toBe(false)
    server.resume()
    await readyChannel(driver)
    expect(textOf(await ask(channel, 'PING'))).toBe('PONG')
    expect(readies).toHaveLength(2)
  })

  test('reconnects on request, once for many requests', async () => {
    const server = await start()
    const { driver, readies } = await open(server.url, client, PATIENT)
    const channel = await readyChannel(driver)
    const before = await ask(channel, 'CLIENT', 'ID')
    for (let times = 0; times < 5; times += 1) channel.reconnect()
    await readyChannel(driver)
    expect(readies).toHaveLength(2)
    expect(await ask(channel, 'CLIENT', 'ID')).not.toBe(before)
    await waitFor('One connection', async () => {
      // This driver, and the one that counts.
      return (await server.cli('CLIENT', 'LIST')).trim().split('\n').length === 2
    })
  })

  test('reconnects after the server closed the connection', async () => {
    const server = await start()
    const { driver, readies } = await open(server.url, client, PATIENT)
    const channel = await readyChannel(driver)
    await server.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await waitFor('Another connection', async () => readies.length === 2)
    expect(textOf(await ask(channel, 'PING'))).toBe('PONG')
  })

  test('connects once a server with too many clients has room', async () => {
    const server = await start({ config: ['--maxclients', '1'] })
    const first = await open(server.url, client, PATIENT)
    await readyChannel(first.driver)
    const second = await open(server.url, client, PATIENT)
    await waitFor('A problem', async () => second.problems.length > 0)
    expect(second.driver.channelOf(0)?.isReady).toBe(false)
    await first.driver.close()
    await readyChannel(second.driver)
  })

  test('settles outstanding commands when it is closed, and then does nothing more', async () => {
    const server = await start()
    const { driver, readies, problems } = await open(server.url, client, PATIENT)
    const channel = await readyChannel(driver)
    server.pause()
    const reply = ask(channel, 'PING')
    await driver.close()
    expect(await reply).toBeInstanceOf(RedisConnectionError)
    expect(channel.isReady).toBe(false)
    server.resume()
    channel.reconnect()
    await waitFor('No connection', async () => {
      return (await server.cli('CLIENT', 'LIST')).trim().split('\n').length === 1
    })
    expect(readies).toHaveLength(1)
    expect(problems).toEqual([])
  })

  test('reports a listener that throws, and goes on', async () => {
    const server = await start()
    const { driver, problems } = await open(server.url, client, PATIENT)
    driver.onReady(() => {
      throw new Error('no')
    })
    const channel = await readyChannel(driver)
    channel.send([wordsCommand(['PING']), wordsCommand(['PING'])], () => {
      throw new Error('no')
    })
    expect(textOf(await ask(channel, 'PING'))).toBe('PONG')
    expect(problems).toEqual([
      'A connection listener threw',
      'A reply listener threw',
      'A reply listener threw',
    ])
  })
})
