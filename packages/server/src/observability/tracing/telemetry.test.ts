import { afterEach, expect, test } from 'vitest'
import { sendRequest } from '../../entrypoints/gateway/forward.test-helper.js'
import { createMemoryLog } from '../log/memory-log.test-helper.js'
import { createRegistry } from '../metrics/registry.js'
import { openTelemetry } from './telemetry.js'
import { startGateway, type TestGateway } from './telemetry.test-helper.js'

let gateway: TestGateway | undefined
afterEach(async () => {
  await gateway?.close()
  gateway = undefined
})

test('the API is not loaded if telemetry is off', async () => {
  let loads = 0
  const load = () => {
    loads++
    return import('./tracing.js')
  }
  expect(await openTelemetry(false, createMemoryLog().log, load)).toBeUndefined()
  expect(loads).toBe(0)
})

test('without the API package telemetry is off, with a line at level debug', async () => {
  const { log, lines } = createMemoryLog()
  const code = 'ERR_MODULE_NOT_FOUND'
  const load = () => Promise.reject(Object.assign(new Error('no such package'), { code }))
  expect(await openTelemetry(true, log, load)).toBeUndefined()
  expect(lines).toMatchObject([
    { level: 'debug', msg: 'OpenTelemetry disabled: @opentelemetry/api is not installed' },
  ])
})

test('a broken API package is logged and stops nothing', async () => {
  const { log, lines } = createMemoryLog()
  const load = () => Promise.reject(new Error('no tracer here'))
  expect(await openTelemetry(true, log, load)).toBeUndefined()
  expect(lines).toMatchObject([{ level: 'warn', problem: 'no tracer here' }])
})

test('headers pass unchanged while no SDK is registered', async () => {
  const telemetry = await openTelemetry(true, createMemoryLog().log)
  expect(telemetry).toBeDefined()
  gateway = await startGateway([], telemetry)
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const headers = { traceparent, tracestate: 'a=1', baggage: 'b=2' }
  expect((await sendRequest(gateway.port, { headers })).status).toBe(200)
  expect(gateway.seen[0]).toMatchObject(headers)
  telemetry?.bridge(createRegistry())()
})
