/** Redis itself is killed, stopped, flushed, filled up or busy, while three nodes decide. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import { waitFor } from '../../tools/redis/wait-for.js'
import { type FaultOptions, runFault, TEST_MS_MAX } from './fault-run.test-helper.js'

vi.setConfig({ testTimeout: TEST_MS_MAX })

let server: RedisServer

beforeEach(async () => {
  server = await startRedis({
    config: ['--enable-debug-command', 'yes', '--busy-reply-threshold', '100'],
  })
})
afterEach(() => server.stop())

const run = (options: Omit<FaultOptions, 'urls' | 'servers'>) =>
  runFault({ ...options, urls: [server.url], servers: async () => [server] })

/** Commands to Redis on a lasting connection, for when no new one can be opened. */
async function openAdmin() {
  const socket = connect({ port: server.port, host: server.host })
  await once(socket, 'connect')
  return {
    async say(line: string): Promise<string> {
      socket.write(`${line}\r\n`)
      const [reply] = await once(socket, 'data')
      return String(reply)
    },
    close: () => socket.destroy(),
  }
}

describe('a Redis', () => {
  test('without a fault decides nearly every call', async () => {
    const { byPosture } = await run({
      name: 'no fault',
      degrades: false,
      well: [server],
      fault: () => sleep(1000),
    })
    expect(byPosture).toBeGreaterThanOrEqual(0)
  })

  test('killed and restarted empty grants every limit once more at most', async () => {
    await run({
      name: 'SIGKILL',
      losses: 1,
      fault: ({ losing, last }) =>
        losing(async () => {
          await server.kill()
          await last(2000)
          await server.start()
        }),
    })
  })

  test('stopped for 30 s takes no units afterwards for calls that were refused', async () => {
    const { takenUnacknowledged: takenUnheard, unknown } = await run({
      name: 'SIGSTOP',
      fault: async ({ last }) => {
        server.pause()
        await last(30_000)
        server.resume()
      },
    })
    // Batches in flight when it stopped find their deadline over. One batch of each node may have
    // been decided just before, with its reply still to be written.
    expect(takenUnheard).toBeLessThanOrEqual(unknown)
    expect(takenUnheard).toBeLessThanOrEqual(3 * 8)
  })

  test('stopped for moments answers late, and takes no units for refused calls', async () => {
    const { takenUnacknowledged: takenUnheard } = await run({
      name: 'SIGSTOP for 300 ms, five times',
      fault: async () => {
        for (let i = 0; i < 5; i++) {
          server.pause()
          await sleep(300)
          server.resume()
          await sleep(150)
        }
      },
      recoveryMs: 1500,
    })
    expect(takenUnheard).toBe(0)
  })

  test('without its scripts ten times a second receives them again, unnoticed', async () => {
    const { nodes } = await run({
      name: 'SCRIPT FLUSH',
      degrades: false,
      well: [server],
      fault: async ({ last }) => {
        const interval = setInterval(() => {
          server.call('SCRIPT', 'FLUSH', 'SYNC').catch(() => {})
        }, 100)
        await last(3000)
        clearInterval(interval)
      },
    })
    expect(nodes.events.errors.get('NOSCRIPT')).toBeGreaterThan(10)
  })

  test('flushed repeatedly grants every limit once more at most, each time', async () => {
    await run({
      name: 'FLUSHALL, three times',
      degrades: false,
      well: [server],
      losses: 3,
      fault: async ({ losing }) => {
        for (let i = 0; i < 3; i++) {
          await losing(() => server.call('FLUSHALL'))
          await sleep(400)
        }
      },
    })
  })

  test('out of memory refuses what it cannot store, and writes nothing by halves', async () => {
    const { nodes } = await run({
      name: 'out of memory',
      fault: async ({ last, nodes: { events } }) => {
        const filler = 'x'.repeat(100_000)
        await server.pipeline(
          Array.from({ length: 20 }, (_, i) => ['SET', `filler:${i}`, filler, 'EX', '600']),
        )
        await server.call('CONFIG', 'SET', 'maxmemory', '2mb')
        await last(1500)
        await waitFor('OOM', async () => events.errors.has('OOM'))
        await server.pipeline(Array.from({ length: 20 }, (_, i) => ['DEL', `filler:${i}`]))
        await server.call('CONFIG', 'SET', 'maxmemory', '0')
      },
    })
    expect(nodes.events.errors.get('OOM')).toBeGreaterThan(0)
  })

  test('evicting counters is reported within 10 s', async () => {
    const { nodes } = await run({
      name: 'eviction',
      degrades: false,
      well: [server],
      losses: 1,
      fault: ({ losing, nodes: { events } }) =>
        losing(async () => {
          await server.call('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-random')
          await server.call('CONFIG', 'SET', 'maxmemory', '2500kb')
          const filler = Array.from({ length: 200 }, (_, i) => {
            return ['SET', `filler:${i}`, 'x'.repeat(10_000), 'EX', '600']
          })
          await server.pipeline(filler)
          await waitFor('the alarm', async () =>
            [...events.problems].some((text) => /evicted/.test(text)),
          )
          await server.call('CONFIG', 'SET', 'maxmemory', '0')
          await server.call('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
          // The key secret may be gone as well. Nodes restore it if they find no fingerprint.
          await server.call('DEL', 'sluice:{home}:secret-fingerprint')
          await waitFor('the secret', async () => {
            return (await server.call('EXISTS', 'sluice:{home}:secret')) === 1
          })
        }),
    })
    expect([...nodes.events.problems].join('\n')).toMatch(/evicted \d+ keys/)
  })

  test('asleep is avoided, and used again when it wakes', async () => {
    await run({
      name: 'DEBUG SLEEP',
      fault: async () => {
        await server.call('DEBUG', 'SLEEP', '2')
      },
    })
  })

  test('busy with a foreign script reports it, and is used again after it', async () => {
    const { nodes } = await run({
      name: 'BUSY',
      fault: async ({ last, nodes: { events } }) => {
        const endless = server.call('EVAL', 'while true do end', '0').catch(() => {})
        await last(800)
        // Connections that are opened meanwhile get BUSY in the handshake too.
        await server.call('CLIENT', 'KILL', 'TYPE', 'normal').catch(() => {})
        await last(800)
        await waitFor('BUSY', async () => events.errors.has('BUSY'))
        await server.call('SCRIPT', 'KILL')
        await endless
      },
    })
    expect(nodes.events.errors.get('BUSY')).toBeGreaterThan(0)
  })

  test('without room for clients is used again when it has room', async () => {
    const admin = await openAdmin()
    await run({
      name: 'maxclients',
      fault: async ({ last }) => {
        await admin.say('CONFIG SET maxclients 1')
        await admin.say('CLIENT KILL TYPE normal SKIPME yes')
        await last(1500)
        await admin.say('CONFIG SET maxclients 1000')
      },
      recoveryMs: 2000,
    }).finally(() => admin.close())
  })

  test('requiring a password suddenly is reported, and used again after that', async () => {
    const admin = await openAdmin()
    const { nodes } = await run({
      name: 'requirepass',
      fault: async ({ last, nodes: { events } }) => {
        await admin.say('CONFIG SET requirepass rotated')
        await admin.say('CLIENT KILL TYPE normal SKIPME yes')
        await last(1000)
        await waitFor('NOAUTH', async () =>
          [...events.problems].some((text) => text.includes('NOAUTH')),
        )
        await admin.say('CONFIG SET requirepass ""')
      },
      recoveryMs: 5000,
    }).finally(() => admin.close())
    expect([...nodes.events.problems].join('\n')).toContain('NOAUTH')
  })
})
