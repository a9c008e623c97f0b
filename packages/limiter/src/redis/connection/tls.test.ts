import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../../../../../tools/ports.mjs'
import { type RedisServer, startRedis } from '../../../../../tools/redis/server.mjs'
import { waitFor } from '../../../../../tools/redis/wait-for.js'
import { findService } from '../../../../../tools/services.mjs'
import { REDIS_CLIENTS } from '../redis-options.js'
import { ask, open, PATIENT, readyChannel, textOf } from './drivers.test-helper.js'

let folder: string
let server: RedisServer
let url: string

const file = (name: string) => join(folder, name)
const read = (name: string) => readFileSync(file(name), 'utf8')

function openssl(...args: readonly string[]): void {
  execFileSync(findService('openssl'), args, { stdio: 'ignore', cwd: folder })
}

/** Self-signed, and so its own authority. */
function makeCertificate(name: string, ...extensions: readonly string[]): void {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const files = ['-keyout', `${name}.key`, '-out', `${name}.crt`]
  const more = extensions.flatMap((extension) => ['-addext', extension])
  openssl('req', '-x509', ...key, ...files, '-days', '2', '-subj', `/CN=${name}`, ...more)
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-tls-'))
  makeCertificate('server', 'subjectAltName=DNS:redis.example,IP:127.0.0.1')
  makeCertificate('client')
  const port = await freePort()
  const files = ['--tls-cert-file', file('server.crt'), '--tls-key-file', file('server.key')]
  const clients = ['--tls-ca-cert-file', file('client.crt'), '--tls-auth-clients', 'yes']
  server = await startRedis({ config: ['--tls-port', String(port), ...files, ...clients] })
  url = `rediss://127.0.0.1:${port}`
})

afterAll(async () => {
  await server?.stop()
  rmSync(folder, { recursive: true, force: true })
})

describe.each(REDIS_CLIENTS)('TLS by %s', (client) => {
  const own = () => ({ cert: read('client.crt'), key: read('client.key') })

  test('works with the given certificates', async () => {
    const { driver, problems } = await open(url, client, {
      ...PATIENT,
      tls: { ...own(), ca: read('server.crt') },
    })
    const channel = await readyChannel(driver)
    expect(textOf(await ask(channel, 'PING'))).toBe('PONG')
    expect(problems).toEqual([])
    channel.reconnect()
    await readyChannel(driver)
  })

  test('works with a server of another name if servername is given', async () => {
    const tls = { ...own(), ca: read('server.crt'), servername: 'redis.example' }
    await readyChannel((await open(url, client, { tls })).driver)
  })

  test.each([
    ['of an unknown authority', () => ({}), /self-signed certificate/],
    [
      'of another name',
      () => ({ ca: read('server.crt'), servername: 'other.example' }),
      /does not match certificate/,
    ],
  ])('refuses a server %s', async (_, tls, expected) => {
    const { driver, problems } = await open(url, client, {
      ...PATIENT,
      tls: { ...own(), ...tls() },
    })
    await waitFor('A problem', async () => problems.length > 0)
    expect(problems[0]).toMatch(expected)
    expect(driver.channelOf(0)?.isReady).toBe(false)
  })

  test('accepts any server if rejectUnauthorized is false', async () => {
    const tls = { ...own(), rejectUnauthorized: false }
    await readyChannel((await open(url, client, { tls })).driver)
  })

  test('fails at a server that requires a client certificate', async () => {
    const { driver, problems } = await open(url, client, { tls: { ca: read('server.crt') } })
    await waitFor('A problem', async () => problems.length > 0)
    expect(driver.channelOf(0)?.isReady).toBe(false)
  })

  test('reports an invalid certificate and throws nothing', async () => {
    const tls = { cert: 'nonsense', key: 'nonsense' }
    const { driver, problems } = await open(url, client, { tls })
    await waitFor('A problem', async () => problems.length > 0)
    expect(driver.channelOf(0)?.isReady).toBe(false)
  })

  test('fails at a server without TLS', async () => {
    const { driver, problems } = await open(`rediss://${server.address}`, client)
    await waitFor('A problem', async () => problems.length > 0)
    expect(driver.channelOf(0)?.isReady).toBe(false)
  })
})
