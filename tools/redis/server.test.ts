import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { scanWithoutTtl, startRedis, type RedisServer } from './server.mjs'
import { waitFor } from './wait-for.js'

/**
 * A process that has exited stays listed until its parent, or the process that adopted it, reads
 * its exit code.
 */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

describe('a Redis test server', () => {
  let server: RedisServer
  beforeAll(async () => {
    server = await startRedis()
  })
  afterAll(() => server.stop())

  test('listens on the loopback, outside the range of outgoing ports', async () => {
    expect(server.url).toBe(`redis://127.0.0.1:${server.port}`)
    expect(server.port).toBeLessThan(32_768)
    expect(await server.cli('CONFIG', 'GET', 'bind')).toBe('bind\n127.0.0.1')
  })

  test('returns replies in the types of their commands', async () => {
    expect(await server.call('SET', 'text', 'ä')).toBe('OK')
    expect(await server.call('GET', 'text')).toBe('ä')
    expect(await server.call('GET', 'none')).toBe(null)
    expect(await server.call('EVAL', 'return {1, {"a", false}}', '0')).toEqual([1, ['a', null]])
    expect(await server.cli('EVAL', 'return {1, {"a", false}}', '0')).toBe('1\na\n')
    await expect(server.cli('GET')).rejects.toThrow('ERR wrong number of arguments')
    const [error, pong] = await server.pipeline([['GET'], ['PING']])
    expect([error instanceof Error, pong]).toEqual([true, 'PONG'])
    const long = 'x'.repeat(1_000_000)
    expect(await server.cli('ECHO', long)).toBe(long)
  })

  test('is empty after a restart, on the same port with another id', async () => {
    await server.cli('SET', 'key', 'x')
    const { port, pid } = server
    await server.restart()
    expect(await server.cli('DBSIZE')).toBe('0')
    expect(server.port).toBe(port)
    expect(server.pid).not.toBe(pid)
    expect(isAlive(pid)).toBe(false)
  })

  test('reports its CPU time and memory', async () => {
    const [cpuMs, memory] = [server.cpuMs(), await server.memory()]
    await server.cli('EVAL', 'for i = 1, 5000 do redis.call("SET", i, i, "PX", 60000) end', '0')
    await server.cli('EVAL', 'local x = 0 for i = 1, 1e7 do x = x + i end', '0')
    expect(server.cpuMs()).toBeGreaterThan(cpuMs)
    expect((await server.memory()).usedBytes).toBeGreaterThan(memory.usedBytes)
    await server.cli('FLUSHALL')
  })

  test('lists the keys without expiry', async () => {
    const keys = Array.from({ length: 3000 }, (_, n) => `key:${n}`)
    await server.pipeline(keys.map((key) => ['SET', key, 'x', 'PX', '60000']))
    expect(await scanWithoutTtl(server)).toEqual([])
    await server.pipeline([
      ['PERSIST', 'key:7'],
      ['SET', 'other', 'x'],
    ])
    expect((await scanWithoutTtl(server)).toSorted()).toEqual(['key:7', 'other'])
  })

  test('keeps its connections while paused, answers afterwards, and can be killed meanwhile', async () => {
    server.pause()
    let isAnswered = false
    const answer = server.cli('PING').finally(() => {
      isAnswered = true
    })
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(isAnswered).toBe(false)
    server.resume()
    expect(await answer).toBe('PONG')
    server.pause()
    const { pid } = server
    await server.kill()
    expect([server.isRunning, isAlive(pid)]).toEqual([false, false])
    await server.start()
  })
})

test('with persistence keys survive a crash', async () => {
  const server = await startRedis({ config: ['--appendonly', 'yes'] })
  await server.cli('SET', 'key', 'kept')
  await server.restart()
  expect(await server.cli('GET', 'key')).toBe('kept')
  await server.stop()
  expect(existsSync(server.folder)).toBe(false)
})

test('a password is part of the URL and is sent', async () => {
  const server = await startRedis({ password: 'a b' })
  expect(server.url).toBe(`redis://:a%20b@${server.address}`)
  expect(await server.cli('PING')).toBe('PONG')
  await server.stop()
})

test('a failed start reports the reason, even if another server has the port', async () => {
  await expect(startRedis({ config: ['--no-such', 'x'] })).rejects.toThrow('Bad directive')
  await expect(startRedis({ command: 'no-such' })).rejects.toThrow('apt-get install redis-server')
  const server = await startRedis()
  await expect(startRedis({ port: server.port })).rejects.toThrow('Address already in use')
  await server.stop()
})

/** A process that starts a server, prints its address, and then does something. */
function startOther(then: string) {
  const script = `import { startRedis } from ${JSON.stringify(new URL('server.mjs', import.meta.url))}
    const server = await startRedis()
    process.stdout.write(JSON.stringify({ pid: server.pid, folder: server.folder }))
    ${then}`
  const args = ['--input-type=module', '--eval', script]
  return spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] })
}

test.each([
  ['ends with its server forgotten', ''],
  ['exits with its server paused', 'server.pause(); process.exit(0)'],
  ['fails', "throw new Error('x')"],
  ['is killed', "process.kill(process.pid, 'SIGKILL')"],
  ['is interrupted', "process.kill(process.pid, 'SIGINT')"],
])('no server or folder is left after a process that %s', async (_, then) => {
  const other = startOther(then)
  const [[said]] = await Promise.all([once(other.stdout, 'data'), once(other, 'exit')])
  const { pid, folder } = JSON.parse(String(said))
  await waitFor('No server and no folder', async () => !isAlive(pid) && !existsSync(folder))
})
