import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { SluiceError } from '@sluice/core'
import {
  runOnChannel,
  runScript,
  runOnSlot,
  luaScript,
  textOf,
  wordsCommand,
} from './run-command.js'
import { FakeChannel } from './channel.test-helper.js'
import { RedisConnectionError, RedisReplyError } from './driver.js'

const TIMEOUT_MS = 300

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

describe('a command', () => {
  test('has lengths in bytes, not in characters', () => {
    const command = wordsCommand(['SET', 'ключ', Buffer.from([0, 13, 10, 255]), 42])
    const head = '*4\r\n$3\r\nSET\r\n$8\r\nключ\r\n$4\r\n'
    const tail = '\r\n$2\r\n42\r\n'
    const bytes = Buffer.concat([
      Buffer.from(head),
      Buffer.from([0, 13, 10, 255]),
      Buffer.from(tail),
    ])
    expect(command.bytes()).toEqual(bytes)
    expect(command.words()).toEqual(['SET', 'ключ', Buffer.from([0, 13, 10, 255]), '42'])
  })
})

describe('a command on a channel', () => {
  test('resolves with the reply and leaves no timer', async () => {
    const channel = new FakeChannel()
    const reply = runOnChannel(channel, ['PING'], TIMEOUT_MS)
    channel.reply(0, Buffer.from('PONG'))
    expect(textOf(await reply)).toBe('PONG')
    expect(vi.getTimerCount()).toBe(0)
  })

  test.each([new RedisReplyError('NOPERM no'), new RedisConnectionError('gone')])(
    'rejects with the error of the driver: %s',
    async (error) => {
      const channel = new FakeChannel()
      const reply = runOnChannel(channel, ['PING'], TIMEOUT_MS)
      channel.reply(0, error)
      await expect(reply).rejects.toBe(error)
      expect(vi.getTimerCount()).toBe(0)
    },
  )

  test('rejects at once if the connection is not ready', async () => {
    const channel = new FakeChannel('10.0.0.1:7000')
    channel.isReady = false
    const error = new RedisConnectionError('Redis at 10.0.0.1:7000 is not connected')
    await expect(runOnChannel(channel, ['PING'], TIMEOUT_MS)).rejects.toEqual(error)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('rejects after its timeout, and ignores a later reply', async () => {
    const channel = new FakeChannel('10.0.0.1:7000')
    const reply = runOnChannel(channel, ['INFO', 'memory'], TIMEOUT_MS)
    const failed = expect(reply).rejects.toEqual(
      new SluiceError('STORE_FAILED', 'Redis at 10.0.0.1:7000 did not answer INFO within 300 ms'),
    )
    await vi.advanceTimersByTimeAsync(TIMEOUT_MS)
    await failed
    channel.reply(0, 1)
    await failed
  })
})

describe('a command for a slot', () => {
  const left = new FakeChannel('10.0.0.1:7000')
  const right = new FakeChannel('10.0.0.1:7001')
  const refresh = vi.fn()
  const driver = {
    channelOf: () => left,
    channelAt: (address: string) => [left, right].find((each) => each.address === address),
    refresh,
  }

  beforeEach(() => {
    left.sent.length = 0
    right.sent.length = 0
    refresh.mockClear()
  })

  test.each(['MOVED 7 10.0.0.1:7001', 'MOVED 7 :7001'])('follows %s', async (message) => {
    const reply = runOnSlot(driver, 7, TIMEOUT_MS)(['GET', 'k'])
    left.reply(0, new RedisReplyError(message))
    await vi.advanceTimersByTimeAsync(0)
    right.reply(0, 5)
    expect(await reply).toBe(5)
    expect(right.words()).toEqual([['GET k']])
    expect(refresh).toHaveBeenCalledOnce()
  })

  test('follows ASK with ASKING in the same write, without a topology refresh', async () => {
    const reply = runOnSlot(driver, 7, TIMEOUT_MS)(['GET', 'k'])
    left.reply(0, new RedisReplyError('ASK 7 10.0.0.1:7001'))
    await vi.advanceTimersByTimeAsync(0)
    right.reply(0, Buffer.from('OK'), 6)
    expect(await reply).toBe(6)
    expect(right.words()).toEqual([['ASKING', 'GET k']])
    expect(refresh).not.toHaveBeenCalled()
  })

  test('follows one redirection only', async () => {
    const reply = runOnSlot(driver, 7, TIMEOUT_MS)(['GET', 'k'])
    const failed = expect(reply).rejects.toThrow('MOVED 7 10.0.0.1:7000')
    left.reply(0, new RedisReplyError('MOVED 7 10.0.0.1:7001'))
    await vi.advanceTimersByTimeAsync(0)
    right.reply(0, new RedisReplyError('MOVED 7 10.0.0.1:7000'))
    await failed
  })

  test('rejects if a redirection names an unknown node', async () => {
    const reply = runOnSlot(driver, 7, TIMEOUT_MS)(['GET', 'k'])
    const failed = expect(reply).rejects.toThrow('MOVED 7 10.0.0.9:7001')
    left.reply(0, new RedisReplyError('MOVED 7 10.0.0.9:7001'))
    await failed
    expect(refresh).toHaveBeenCalledOnce()
  })

  test('rejects if no node serves the slot', async () => {
    const ask = runOnSlot({ ...driver, channelOf: () => undefined }, 7, TIMEOUT_MS)
    const error = new RedisConnectionError('No Redis is known to serve slot 7 now')
    await expect(ask(['GET', 'k'])).rejects.toEqual(error)
  })
})

describe('a script', () => {
  const script = luaScript('fleet')

  test('calls by hash, and sends the source only if the hash is unknown', async () => {
    const channel = new FakeChannel()
    const ask = (words: Parameters<typeof runOnChannel>[1]) =>
      runOnChannel(channel, words, TIMEOUT_MS)
    const reply = runScript(ask, script, ['k'], [7])
    channel.reply(0, new RedisReplyError('NOSCRIPT No matching script. Please use EVAL.'))
    await vi.advanceTimersByTimeAsync(0)
    channel.reply(1, 1)
    expect(await reply).toBe(1)
    expect(channel.words()).toEqual([
      [`EVALSHA ${script.sha} 1 k 7`],
      [`EVAL ${script.source} 1 k 7`],
    ])
  })

  test('does not run again after any other error', async () => {
    const channel = new FakeChannel()
    const ask = (words: Parameters<typeof runOnChannel>[1]) =>
      runOnChannel(channel, words, TIMEOUT_MS)
    const reply = runScript(ask, script, [], [])
    channel.reply(0, new RedisReplyError('OOM command not allowed'))
    await expect(reply).rejects.toThrow('OOM')
    expect(channel.sent).toHaveLength(1)
  })
})
