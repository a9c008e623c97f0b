import { expect, test } from 'vitest'
import { closeAfterEach, eventually, SERVERS, startGrpc, TestClient } from '../envoy.test-helper.js'
import { encodeHealthResponse, HEALTH } from '../protobuf/health-codec.js'
import { officialMessage } from '../protobuf/official-protos.test-helper.js'
import { HealthService, WATCH_EVERY_MS, WATCHERS_MAX } from './health.js'

closeAfterEach()

const NAMES = ['', 'ratelimit', 'envoy.service.ratelimit.v3.RateLimitService']
const CODEC = officialMessage('grpc.health.v1.HealthCheckResponse')
const requestFor = (service: string) =>
  officialMessage('grpc.health.v1.HealthCheckRequest').encode({ service })

function statusOf(response: Uint8Array): unknown {
  return (CODEC.decode(response) as { readonly status: unknown }).status
}

const ofEach = SERVERS.flatMap((kind) => NAMES.map((name) => [name, kind] as const))

test.each(ofEach)('the service "%s" serves while the server %s is ready', async (name, kind) => {
  let isReady = true
  const { target, health } = await startGrpc({ kind, isReady: () => isReady })
  const client = new TestClient(target)
  expect(await client.check(name)).toMatchObject({ response: { status: 'SERVING' } })
  isReady = false
  expect(await client.check(name)).toMatchObject({ response: { status: 'NOT_SERVING' } })
  isReady = true
  health.beginDraining()
  expect(await client.check(name)).toMatchObject({ response: { status: 'NOT_SERVING' } })
})

test.each(SERVERS)('an unknown service of the server %s is NOT_FOUND', async (kind) => {
  const { target } = await startGrpc({ kind })
  const { error } = await new TestClient(target).check('other')
  expect(error).toMatchObject({ code: 5, details: 'unknown service' })
})

test('the responses are those of the official definition', () => {
  expect(statusOf(encodeHealthResponse(HEALTH.serving))).toBe('SERVING')
  expect(statusOf(encodeHealthResponse(HEALTH.notServing))).toBe('NOT_SERVING')
  expect(statusOf(encodeHealthResponse(HEALTH.serviceUnknown))).toBe('SERVICE_UNKNOWN')
})

test('watching is UNIMPLEMENTED without streams, which clients take for serving', async () => {
  const { target, listener } = await startGrpc({ kind: 'own' })
  const stream = new TestClient(target).watch('ratelimit')
  stream.resume()
  expect(await new Promise((resolve) => stream.on('error', resolve))).toMatchObject({ code: 12 })
  expect(listener.inFlight()).toBe(0)
})

test('a client that watches learns the health now and when the server stops', async () => {
  const { target, health, listener } = await startGrpc()
  const stream = new TestClient(target).watch('ratelimit')
  const received: unknown[] = []
  const ended = new Promise((resolve) => stream.on('error', resolve))
  stream.on('data', (response: { readonly status: unknown }) => received.push(response.status))
  await eventually(() => received).toEqual(['SERVING'])
  // A stream that stays open is no call in flight, for which a stop would wait.
  expect(listener.inFlight()).toBe(0)
  health.beginDraining()
  await eventually(() => received).toEqual(['SERVING', 'NOT_SERVING'])
  health.endWatches()
  expect(await ended).toMatchObject({ code: 14, details: 'the server is stopping' })
})

test('a client that watches an unknown service learns that, and nothing more', async () => {
  const { target, health } = await startGrpc()
  const stream = new TestClient(target).watch('other')
  const received: unknown[] = []
  stream.on('error', () => {})
  stream.on('data', (response: { readonly status: unknown }) => received.push(response.status))
  await eventually(() => received).toEqual(['SERVICE_UNKNOWN'])
  health.beginDraining()
  const other = new TestClient(target).watch('')
  other.on('error', () => {})
  await new Promise((resolve) => other.once('data', resolve))
  expect(received).toEqual(['SERVICE_UNKNOWN'])
})

function manualHealth() {
  const state = { isReady: false, polls: 0, run: undefined as (() => void) | undefined }
  const health = new HealthService({
    isReady: () => state.isReady,
    every(ms, run) {
      expect(ms).toBe(WATCH_EVERY_MS)
      state.run = run
      state.polls++
      return () => (state.run = undefined)
    },
  })
  return { health, state }
}

test('readiness is read for watchers, only while there are any, and changes are sent', () => {
  const { health, state } = manualHealth()
  const sent: unknown[] = []
  const watcher = { send: (response: Buffer) => sent.push(statusOf(response)), end: () => {} }
  const stops = [health.watch(requestFor(''), watcher), health.watch(requestFor(''), watcher)]
  expect(state.polls).toBe(1)
  state.run?.()
  expect(sent).toEqual(['NOT_SERVING', 'NOT_SERVING'])
  state.isReady = true
  state.run?.()
  state.run?.()
  expect(sent.slice(2)).toEqual(['SERVING', 'SERVING'])
  for (const stop of stops) stop()
  expect(state.run).toBeUndefined()
})

test('the number of watchers is bounded', () => {
  const { health } = manualHealth()
  const watcher = { send: () => {}, end: () => {} }
  const watch = () => health.watch(requestFor(''), watcher)
  const stops = Array.from({ length: WATCHERS_MAX }, watch)
  expect(watch).toThrow('too many clients watch the health')
  stops[0]?.()
  expect(watch).not.toThrow()
  health.endWatches()
})

test('a client that leaves is no longer a watcher', async () => {
  const { target, health } = await startGrpc()
  const stream = new TestClient(target).watch('')
  stream.on('error', () => {})
  await new Promise((resolve) => stream.once('data', resolve))
  stream.cancel()
  const watcher = { send: () => {}, end: () => {} }
  await eventually(() => {
    const stops: (() => void)[] = []
    try {
      while (stops.length < WATCHERS_MAX) stops.push(health.watch(requestFor(''), watcher))
      return true
    } catch {
      return false
    } finally {
      for (const stop of stops) stop()
    }
  }).toBe(true)
})
