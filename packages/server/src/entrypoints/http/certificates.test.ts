import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer, type Server } from 'node:tls'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { createMemoryLog, type MemoryLog } from '../../observability/log/memory-log.test-helper.js'
import { type Certificates, watchCertificates } from './certificates.js'
import {
  connectTls,
  encrypt,
  type MadePair,
  makePair,
  shownName,
} from './certificates.test-helper.js'

let made: string
let one: MadePair
let two: MadePair

beforeAll(() => {
  made = mkdtempSync(join(tmpdir(), 'sluice-made-'))
  one = makePair(made, 'one')
  two = makePair(made, 'two')
})

afterAll(() => rmSync(made, { recursive: true }))

let directory: string
let files: MadePair
let server: Server
let port: number
let memory: MemoryLog
let certificates: Certificates | undefined
/** Called with each context that the server gets. */
let onContext: () => void

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'sluice-tls-'))
  files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  memory = createMemoryLog()
  certificates = undefined
  onContext = () => undefined
  server = createServer((socket) => socket.on('error', () => undefined))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  port = (server.address() as AddressInfo).port
})

afterEach(async () => {
  certificates?.close()
  await new Promise((resolve) => server.close(resolve))
  rmSync(directory, { recursive: true })
})

function write({ cert, key }: MadePair): void {
  writeFileSync(files.cert, cert)
  writeFileSync(files.key, key)
}

async function watch(): Promise<void> {
  const setSecureContext: Server['setSecureContext'] = (options) => {
    server.setSecureContext(options)
    onContext()
  }
  certificates = await watchCertificates({ setSecureContext }, files, memory.log, { pollMs: 50 })
}

function nextContext(): Promise<void> {
  return new Promise((resolve) => {
    onContext = resolve
  })
}

/** Resolves when a line of this level was logged. */
async function untilLogged(level: string): Promise<Record<string, unknown>> {
  for (;;) {
    const line = memory.lines.find((each) => each['level'] === level)
    if (line !== undefined) return line
    await new Promise(setImmediate)
  }
}

test('a server uses the certificate of its files', async () => {
  write(one)
  await watch()
  expect(await shownName(port)).toBe('one')
})

test('a new pair is used for new connections, without a restart and without cutting old ones', async () => {
  write(one)
  await watch()
  const old = await connectTls(port)
  const changed = nextContext()
  write(two)
  await changed
  expect(await shownName(port)).toBe('two')
  expect(old.destroyed).toBe(false)
  old.destroy()
  const line = await untilLogged('info')
  expect(line).toMatchObject({ msg: 'certificate changed', file: files.cert })
  expect(Date.parse(String(line['until']))).toBeGreaterThan(Date.now())
})

test('a pair that is swapped by a symbolic link is used', async () => {
  for (const [version, pair] of [
    ['..v1', one],
    ['..v2', two],
  ] as const) {
    mkdirSync(join(directory, version))
    writeFileSync(join(directory, version, 'cert.pem'), pair.cert)
    writeFileSync(join(directory, version, 'key.pem'), pair.key)
  }
  symlinkSync('..v1', join(directory, '..data'))
  symlinkSync('..data/cert.pem', files.cert)
  symlinkSync('..data/key.pem', files.key)
  await watch()
  const changed = nextContext()
  symlinkSync('..v2', join(directory, '..data_tmp'))
  renameSync(join(directory, '..data_tmp'), join(directory, '..data'))
  await changed
  expect(await shownName(port)).toBe('two')
  expect(memory.lines.filter(({ level }) => level === 'error')).toEqual([])
})

test('a certificate whose key is missing changes nothing until the key is there', async () => {
  write(one)
  await watch()
  writeFileSync(files.cert, two.cert)
  const line = await untilLogged('error')
  expect(line['problem']).toBe(
    `${files.key}: the key is not that of the certificate in ${files.cert}`,
  )
  expect(await shownName(port)).toBe('one')
  const changed = nextContext()
  writeFileSync(files.key, two.key)
  await changed
  expect(await shownName(port)).toBe('two')
})

test('a file that is half written or missing changes nothing, and is named in the log', async () => {
  write(one)
  await watch()
  writeFileSync(files.cert, two.cert.slice(0, 200))
  expect((await untilLogged('error'))['problem']).toContain(`${files.cert}: found no certificate`)
  memory.lines.length = 0
  writeFileSync(files.cert, one.cert)
  writeFileSync(files.key, two.key.slice(0, 60))
  expect((await untilLogged('error'))['problem']).toContain(`${files.key}: found no private key`)
  memory.lines.length = 0
  rmSync(files.key)
  expect((await untilLogged('error'))['problem']).toBe(`${files.key}: there is no such file`)
  expect(await shownName(port)).toBe('one')
})

test.each([
  [
    'no certificate',
    (): MadePair => ({ ...one, cert: 'nothing' }),
    'cert.pem: found no certificate',
  ],
  ['no key', (): MadePair => ({ ...one, key: one.cert }), 'key.pem: found no private key'],
  ['another key', (): MadePair => ({ ...one, key: two.key }), 'key.pem: the key is not that'],
])('a server does not start with %s', async (_, pair, message) => {
  write(pair())
  await expect(watch()).rejects.toThrow(message)
})

test('a key with a passphrase is refused with a readable message', async () => {
  write({ ...one, key: encrypt(made, one.key) })
  await expect(watch()).rejects.toThrow('accepted: PEM, without a passphrase')
})
