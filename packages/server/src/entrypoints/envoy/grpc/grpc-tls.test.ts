import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { type ChannelCredentials, credentials } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectTls, makePair, shownName } from '../../http/certificates.test-helper.js'
import {
  closeAfterEach,
  eventually,
  SERVERS,
  startGrpc as startServer,
  type TestGrpcOptions,
  TestClient,
} from '../envoy.test-helper.js'

closeAfterEach()

const NAMES = ['one', 'two', 'proxy', 'other-proxy']
let directory: string

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'sluice-grpc-tls-'))
  for (const name of NAMES) {
    const { cert, key } = makePair(directory, name)
    writeFileSync(join(directory, `${name}.cert`), cert)
    writeFileSync(join(directory, `${name}.key`), key)
  }
})

afterAll(() => rmSync(directory, { recursive: true }))

const read = (name: string) => readFileSync(join(directory, name))
const copy = (from: string, to: string) => writeFileSync(join(directory, to), read(from))

/** The files of a server, which a test may change. */
function serverFiles({ clientCa }: { readonly clientCa?: string } = {}) {
  copy('one.cert', 'server.cert')
  copy('one.key', 'server.key')
  if (clientCa !== undefined) copy(clientCa, 'clients.cert')
  const file = (name: string) => join(directory, name)
  return {
    cert: file('server.cert'),
    key: file('server.key'),
    clientCa: clientCa === undefined ? undefined : file('clients.cert'),
  }
}

/** Trusts the named server, and presents the certificate of a client. */
function trust(server: string, client?: string): ChannelCredentials {
  const [key, cert] =
    client === undefined ? [null, null] : [read(`${client}.key`), read(`${client}.cert`)]
  return credentials.createSsl(read(`${server}.cert`), key, cert)
}

const clientOf = (target: string, server: string, client?: string) =>
  new TestClient(target, trust(server, client), { 'grpc.ssl_target_name_override': server })

describe.each(SERVERS)('TLS of the server %s', (kind) => {
  const startGrpc = (options: TestGrpcOptions = {}) => startServer({ kind, ...options })

  test('a listener with a certificate serves gRPC over TLS, and nothing in clear text', async () => {
    const { target, port } = await startGrpc({ tls: serverFiles() })
    expect(await clientOf(target, 'one').shouldRateLimit()).toMatchObject({ error: undefined })
    const socket = await connectTls(port, ['h2', 'http/1.1'])
    expect(socket.alpnProtocol).toBe('h2')
    socket.destroy()
    const { error } = await new TestClient(target).shouldRateLimit({}, { deadlineMs: 2000 })
    expect(error).toBeDefined()
    expect(await clientOf(target, 'one').shouldRateLimit()).toMatchObject({ error: undefined })
  })

  test('new connections see a certificate that changed, and old ones go on', async () => {
    const { target, port, memoryLog } = await startGrpc({ tls: serverFiles() })
    const before = clientOf(target, 'one')
    expect(await before.shouldRateLimit()).toMatchObject({ error: undefined })
    copy('two.cert', 'server.cert')
    copy('two.key', 'server.key')
    await eventually(() => memoryLog.lines.map(({ msg }) => msg)).toContain('certificate changed')
    expect(await shownName(port)).toBe('two')
    expect(await clientOf(target, 'two').shouldRateLimit()).toMatchObject({ error: undefined })
    expect(await before.shouldRateLimit()).toMatchObject({ error: undefined })
  })

  test('where clients need a certificate, only those with a good one are served', async () => {
    const { target } = await startGrpc({ tls: serverFiles({ clientCa: 'proxy.cert' }) })
    const good = await clientOf(target, 'one', 'proxy').shouldRateLimit()
    expect(good).toMatchObject({ error: undefined })
    for (const client of [undefined, 'other-proxy']) {
      const { error } = await clientOf(target, 'one', client).shouldRateLimit()
      expect(error?.code, client).toBe(14)
    }
  })

  test('the authorities of clients are replaced like a certificate, also for old sessions', async () => {
    const tls = serverFiles({ clientCa: 'proxy.cert' })
    const { target, port, memoryLog } = await startGrpc({ tls })
    const session = await sessionOf(port)
    expect(await isAccepted(port, session)).toBe(true)
    copy('other-proxy.cert', 'clients.cert')
    await eventually(() => memoryLog.lines.map(({ msg }) => msg)).toContain('certificate changed')
    expect(await isAccepted(port, session)).toBe(false)
    const { error } = await clientOf(target, 'one', 'proxy').shouldRateLimit()
    expect(error?.code).toBe(14)
    const other = await clientOf(target, 'one', 'other-proxy').shouldRateLimit()
    expect(other).toMatchObject({ error: undefined })
  })

  function connectAsProxy(port: number, session?: Buffer): TLSSocket {
    return connect({
      port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      ALPNProtocols: ['h2'],
      key: read('proxy.key'),
      cert: read('proxy.cert'),
      ...(session && { session }),
    })
  }

  /** A session of TLS, with which a client need not present its certificate again. */
  function sessionOf(port: number): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const socket = connectAsProxy(port)
      socket.once('error', reject)
      socket.once('session', (session: Buffer) => {
        socket.destroy()
        resolve(session)
      })
      socket.resume()
    })
  }

  /** Whether the server begins HTTP/2 with a client that resumes a session. */
  function isAccepted(port: number, session: Buffer): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connectAsProxy(port, session)
      socket.once('data', () => {
        socket.destroy()
        resolve(true)
      })
      socket.on('error', () => {})
      socket.once('close', () => resolve(false))
    })
  }

  test('files that cannot be used are reported, and the listener does not start', async () => {
    const tls = serverFiles()
    copy('two.key', 'server.key')
    await expect(startGrpc({ tls })).rejects.toThrow('the key is not that of the certificate')
    const withoutAuthority = serverFiles({ clientCa: 'one.key' })
    await expect(startGrpc({ tls: withoutAuthority })).rejects.toThrow(
      'clients.cert: found no certificate; accepted: PEM, the certificates of the authorities',
    )
  })

  test('a client that never finishes its handshake is disconnected', async () => {
    const { port } = await startGrpc({ tls: serverFiles(), times: { handshakeMs: 50 } })
    const { connect: connectSocket } = await import('node:net')
    const socket = connectSocket(port, '127.0.0.1').resume()
    socket.on('error', () => {})
    await new Promise((resolve) => socket.once('close', resolve))
  })
})
