/**
 * Runs h2spec, strictly, against a server of @sluice/http2-unary and against `sluice serve` with
 * `envoy.server: own`: in plain text, and over TLS with a certificate that openssl makes.
 *
 *     node interop/h2spec.mjs [--h2spec PATH]
 */
import { execFile, spawnSync } from 'node:child_process'
import { parseArgs, promisify } from 'node:util'
import { makeCertificates } from './envoy/certificates.mjs'
import { startSluice } from './envoy/sluice-server.mjs'

/** Several minutes: a case that fails waits for its timeout. */
const RUN_MS_MAX = 600_000

const { values } = parseArgs({ options: { h2spec: { type: 'string', default: 'h2spec' } } })
const h2spec = values.h2spec
if (spawnSync(h2spec, ['--version']).error !== undefined) {
  console.error(`${h2spec}: not found. Install it, or name it by --h2spec PATH:`)
  console.error('  go install github.com/summerwind/h2spec/cmd/h2spec@latest')
  process.exit(2)
}
const { createUnaryServer } = await import('../packages/http2-unary/dist/index.js').catch(() => {
  console.error('packages/http2-unary/dist: not found. Run npm run build first.')
  process.exit(2)
})

const { file, text } = makeCertificates(['server'])
const pair = { cert: text('server', 'cert'), key: text('server', 'key') }
const files = { cert: file('server', 'cert'), key: file('server', 'key') }
const OVER_TLS = ['-t', '-k']
await check('http2-unary, plain text', await startPackage())
await check('http2-unary, TLS', await startPackage(pair), OVER_TLS)
await check('sluice serve, plain text', await startSluice({ server: 'own' }))
await check('sluice serve, TLS', await startSluice({ server: 'own', tls: files }), OVER_TLS)

async function startPackage(tls) {
  const methods = { '/interop.Service/Echo': (message) => message }
  const server = createUnaryServer({ methods, ...(tls && { tls }) })
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 })
  return { port, stop: () => server.close() }
}

/** Prints the last line of a run, or all of it if a case failed. */
async function check(name, { port, stop }, flags = []) {
  const args = ['--strict', '-h', '127.0.0.1', '-p', String(port), ...flags]
  const run = promisify(execFile)(h2spec, args, { timeout: RUN_MS_MAX })
  const { stdout } = await run.catch((error) => error)
  await stop()
  const counts = /\d+ tests, .*/.exec(stdout ?? '')?.[0]
  const hasPassed = counts !== undefined && / 0 failed/.test(counts)
  if (!hasPassed) {
    console.log(stdout)
    process.exitCode = 1
  }
  console.log(`${name}: ${counts ?? 'h2spec printed no counts'}`)
}
