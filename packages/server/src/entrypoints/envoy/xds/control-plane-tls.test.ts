/** A control plane that is reached over TLS, and that asks its clients for certificates. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ServerCredentials } from '@grpc/grpc-js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createMemoryLog } from '../../../observability/log/memory-log.test-helper.js'
import { makePair, type MadePair } from '../../http/certificates.test-helper.js'
import { closeAfterEach, closeAfterTest, eventually } from '../envoy.test-helper.js'
import { TestControlPlane } from './control-plane.test-helper.js'
import { nameWithoutDot } from './ads-stream.js'
import { followControlPlane } from './control-plane-source.js'

closeAfterEach()

let directory: string
const pairs = new Map<string, MadePair>()

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'sluice-xds-tls-'))
  for (const name of ['envoy-gateway', 'envoy-ratelimit', 'another']) {
    pairs.set(name, makePair(directory, name))
  }
})

afterAll(() => rmSync(directory, { recursive: true }))

const pairOf = (name: string): MadePair => pairs.get(name) as MadePair

/** Trusts the certificate of one client. */
function serverCredentials(): ServerCredentials {
  const { cert, key } = pairOf('envoy-gateway')
  const own = { cert_chain: Buffer.from(cert), private_key: Buffer.from(key) }
  return ServerCredentials.createSsl(Buffer.from(pairOf('envoy-ratelimit').cert), [own], true)
}

/** Writes the files of a client, as a mounted secret has them. */
function writeFiles(client: string) {
  const { cert, key } = pairOf(client)
  const [ca, certFile, keyFile] = ['ca.crt', 'tls.crt', 'tls.key'].map((name) =>
    join(directory, name),
  )
  writeFileSync(String(ca), pairOf('envoy-gateway').cert)
  writeFileSync(String(certFile), cert)
  writeFileSync(String(keyFile), key)
  return { ca, cert: certFile, key: keyFile, servername: 'envoy-gateway' }
}

test('a client certificate is presented, and a renewed one is used from the next attempt on', async () => {
  const plane = await new TestControlPlane(serverCredentials()).start()
  const tls = writeFiles('another')
  const { log } = createMemoryLog()
  const source = followControlPlane(
    {
      server: `127.0.0.1:${plane.port}`,
      node: { id: 'envoy-ratelimit', metadata: {} },
      tls,
      headers: new Map(),
      maxMessageBytes: 1024 * 1024,
      backoff: { firstMs: 10, mostMs: 20 },
    },
    { log, random: () => 0 },
  )
  closeAfterTest(() => source.close())
  await eventually(() => source.streamsLost()).toBeGreaterThan(0)
  expect(plane.streams).toEqual([])
  writeFiles('envoy-ratelimit')
  await plane.answerOf(await plane.send('v1', [{ name: 'a', domain: 'a' }]))
  expect(source.current()?.domains.has('a')).toBe(true)
})

test('a server whose certificate has another name is not followed', async () => {
  const plane = await new TestControlPlane(serverCredentials()).start()
  const tls = { ...writeFiles('envoy-ratelimit'), servername: 'someone-else' }
  const { log } = createMemoryLog()
  const source = followControlPlane(
    {
      server: `127.0.0.1:${plane.port}`,
      node: { id: 'n', metadata: {} },
      tls,
      headers: new Map(),
      maxMessageBytes: 1024 * 1024,
      backoff: { firstMs: 10, mostMs: 20 },
    },
    { log, random: () => 0 },
  )
  closeAfterTest(() => source.close())
  await eventually(() => source.problem()).toContain('UNAVAILABLE')
  expect(plane.streams).toEqual([])
})

test('a name that ends with a dot is verified without it, as TLS has none', () => {
  expect(nameWithoutDot('envoy-gateway.ns.svc.cluster.local.:18001')).toBe(
    'envoy-gateway.ns.svc.cluster.local',
  )
  expect(nameWithoutDot('envoy-gateway:18001')).toBeUndefined()
  expect(nameWithoutDot('[::1]:18001')).toBeUndefined()
})
