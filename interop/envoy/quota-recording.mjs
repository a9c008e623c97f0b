/** A quota service that keeps what Envoy reports, and answers what our codec writes. */
import { Server, ServerCredentials } from '@grpc/grpc-js'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from './http-client.mjs'

const METHOD = '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas'

/** Envoy reports every five seconds. */
const REPORT_MS_MAX = 12_000
/** Until Envoy has applied an answer. */
const APPLIED_MS = 500

const LEASE = { kind: 'lease', calls: 3 }

export async function startQuotaRecorder() {
  const reports = []
  let stream
  const server = new Server()
  const unchanged = (bytes) => bytes
  server.register(
    METHOD,
    (call) => {
      stream = call
      call.on('data', (bytes) => reports.push(bytes))
      call.on('end', () => call.end())
      call.on('error', () => {})
    },
    unchanged,
    unchanged,
    'bidi',
  )
  const port = await new Promise((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  )
  return { port, reports, send: (bytes) => stream.write(bytes), stop: () => server.forceShutdown() }
}

/** Records the reports of one bucket: when it is new, on a timer, and when it was abandoned. */
export async function recordReports({ port, recorder, codec, check }) {
  const { decodeUsageReports, encodeQuotaResponse } = codec
  const client = createClient(port)
  const recorded = []
  const call = async (count) => {
    const statuses = []
    for (let i = 0; i < count; i++) {
      const { status } = await client.get('/quota', { user: 'u1' })
      statuses.push(status)
    }
    return statuses.join(' ')
  }
  const next = async (says, isWanted = () => true) => {
    const endMs = performance.now() + REPORT_MS_MAX
    while (performance.now() < endMs) {
      const bytes = recorder.reports.shift()
      const report = bytes && decodeUsageReports(bytes)
      if (report !== undefined && isWanted(report.usages[0])) {
        recorded.push({ says, bytes: bytes.toString('hex'), report })
        return report
      }
      await sleep(10)
    }
    check(`Envoy reports: ${says}`, false)
    return { usages: [{ bucket: [] }] }
  }
  const assign = async (action) => {
    recorder.send(encodeQuotaResponse([{ bucket, ttlSeconds: 60, ...action }]))
    await sleep(APPLIED_MS)
  }

  check('the first call passes', (await call(1)) === '200')
  const first = await next('a new bucket')
  const [{ bucket }] = first.usages
  await assign({ kind: 'assign', strategy: LEASE, isNew: true })
  const leased = await call(5)
  check('a lease of three admits three', leased === '200 200 200 429 429', leased)
  await next('a timer', ({ denied }) => denied > 0)
  await assign({ kind: 'assign', strategy: LEASE, isNew: false })
  const renewed = await call(2)
  check('a renewal admits none', renewed === '429 429', renewed)
  await assign({ kind: 'assign', strategy: LEASE, isNew: true })
  const again = await call(4)
  check('a new lease admits three more', again === '200 200 200 429', again)
  await assign({ kind: 'assign', strategy: { kind: 'deny' }, isNew: true })
  const denied = await call(2)
  check('DENY_ALL admits none', denied === '429 429', denied)
  await assign({ kind: 'assign', strategy: { kind: 'allow' }, isNew: true })
  const allowed = await call(4)
  check('ALLOW_ALL admits all', allowed === '200 200 200 200', allowed)
  recorder.reports.length = 0
  await assign({ kind: 'abandon' })
  check('a call after it was abandoned passes', (await call(1)) === '200')
  await next('a bucket that was abandoned', (usage) => usage.allowed === 1)
  client.close()
  return recorded
}
