/** The listener with TLS: ALPN, certificates that are replaced, and those of clients. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import { type AddressInfo, connect as connectSocket, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { findService } from '../../../tools/services.mjs'
import { grpc, PATH } from './conversation.test-helper.js'
import { eventually } from './eventually.test-helper.js'
import { createUnaryServer, type UnaryServer, type UnaryServerOptions } from './server.js'

let folder: string
const servers: UnaryServer[] = []

interface Pair {
  readonly cert: Buffer
  readonly key: Buffer
}

/** Self-signed, and so its own authority. */
function makePair(name: string): Pair {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const files = ['-keyout', `${name}.key`, '-out', `${name}.crt`, '-days', '2']
  const subject = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name},IP:127.0.0.1`]
  const args = ['req', '-x509', ...key, ...files, ...subject]
  execFileSync(findService('openssl'), args, { stdio: 'ignore', cwd: folder })
  return {
    cert: readFileSync(join(folder, `${name}.crt`)),
    key: readFileSync(join(folder, `${name}.key`)),
  }
}

let first: Pair
let second: Pair
let client: Pair

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-http2-'))
  first = makePair('first.example')
  second = makePair('second.example')
  client = makePair('client.example')
})
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()))
})
afterAll(() => rmSync(folder, { recursive: true }))

async function start(tls: UnaryServerOptions['tls'], limits: UnaryServerOptions['limits'] = {}) {
  const server = createUnaryServer({
    methods: { [PATH]: (message) => message },
    tls: tls ?? {},
    limits,
  })
  servers.push(server)
  const { port } = (await server.listen({ host: '127.0.0.1', port: 0 })) as AddressInfo
  return { server, port }
}

function call(port: number, options: ConnectionOptions): Promise<string> {
  return new Promise((resolve, reject) => {
    const session = connectHttp2(`https://127.0.0.1:${port}`, options)
    session.on('error', reject)
    const stream = session.request({
      ':method': 'POST',
      ':path': PATH,
      'content-type': 'application/grpc',
    })
    const chunks: Buffer[] = []
    stream.on('error', reject)
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    stream.on('end', () => {
      session.close()
      resolve(Buffer.concat(chunks).subarray(5).toString())
    })
    stream.end(grpc('hello'))
  })
}

async function nameOf(port: number): Promise<string> {
  const options = { port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2'] }
  const socket = connect(options)
  await once(socket, 'secureConnect')
  const { CN } = socket.getPeerCertificate().subject
  socket.destroy()
  return String(CN)
}

describe('TLS', () => {
  test('serves clients that offer h2', async () => {
    const { port } = await start(first)
    expect(await call(port, { ca: first.cert })).toBe('hello')
  })

  test.each([
    ['http/1.1', ['http/1.1']],
    ['nothing', undefined],
  ])('closes connections of clients that offer %s', async (_what, ALPNProtocols) => {
    const { server, port } = await start(first)
    const socket: TLSSocket = connect({
      port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      ...(ALPNProtocols && { ALPNProtocols }),
    })
    await closeOf(socket)
    await eventually(() => server.stats().connections).toBe(0)
    expect(await call(port, { ca: first.cert })).toBe('hello')
  })

  test('shows new certificates to new connections, and keeps those that are open', async () => {
    const { server, port } = await start(first)
    expect(await nameOf(port)).toBe('first.example')
    server.setSecureContext(second)
    expect(await nameOf(port)).toBe('second.example')
    expect(await call(port, { ca: second.cert })).toBe('hello')
  })

  test('accepts only clients with a certificate where that is asked for', async () => {
    const tls = { ...first, ca: client.cert, requestCert: true, rejectUnauthorized: true }
    const { server, port } = await start(tls)
    expect(await call(port, { ca: first.cert, ...client })).toBe('hello')
    // With TLS 1.3 a client learns of it only after its own handshake.
    for (const own of [{}, second]) {
      const refused = call(port, { ca: first.cert, ...own }).catch(() => '')
      expect(await refused).toBe('')
    }
    expect(server.stats().calls).toBe(1)
  })

  test('counts connections that are in the handshake', async () => {
    const { server, port } = await start(first, { connections: 1 })
    const silent = connectSocket({ port, host: '127.0.0.1' })
    await eventually(() => server.stats().connections).toBe(1)
    await closeOf(connectSocket({ port, host: '127.0.0.1' }))
    expect(server.stats().connectionsRefused).toBe(1)
    silent.destroy()
    await eventually(() => server.stats().connections).toBe(0)
  })

  test('closes connections that stay in the handshake', async () => {
    const { server, port } = await start(first, { prefaceMs: 50 })
    await closeOf(connectSocket({ port, host: '127.0.0.1' }))
    await eventually(() => server.stats().connections).toBe(0)
  })
})

/** Resolves when a socket is closed, by whatever error. */
function closeOf(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.on('error', () => {})
    socket.on('close', () => resolve())
    socket.resume()
  })
}
