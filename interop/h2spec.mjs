/**
 * Runs h2spec, strictly, against a server of @sluice/http2-unary: in plain text, and over TLS with
 * a certificate that openssl makes.
 *
 *     node interop/h2spec.mjs [--h2spec PATH]
 */
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs, promisify } from 'node:util'

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

const folder = mkdtempSync(join(tmpdir(), 'sluice-h2spec-'))
try {
  const results = [await check('plain text'), await check('TLS', makeCertificate(), ['-t', '-k'])]
  if (results.includes(false)) process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true })
}

/** Prints the last line of a run, or all of it if a case failed. */
async function check(name, tls, flags = []) {
  const methods = { '/interop.Service/Echo': (message) => message }
  const server = createUnaryServer({ methods, ...(tls && { tls }) })
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 })
  const args = ['--strict', '-h', '127.0.0.1', '-p', String(port), ...flags]
  const run = promisify(execFile)(h2spec, args, { timeout: RUN_MS_MAX })
  const { stdout } = await run.catch((error) => error)
  await server.close()
  const counts = /\d+ tests, .*/.exec(stdout ?? '')?.[0]
  const hasPassed = counts !== undefined && / 0 failed/.test(counts)
  if (!hasPassed) console.log(stdout)
  console.log(`${name}: ${counts ?? 'h2spec printed no counts'}`)
  return hasPassed
}

function makeCertificate() {
  const [key, cert] = [join(folder, 'key'), join(folder, 'cert')]
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const args = ['req', '-x509', ...curve, '-keyout', key, '-out', cert, '-subj', '/CN=localhost']
  execFileSync('openssl', args, { stdio: 'ignore' })
  return { key: readFileSync(key), cert: readFileSync(cert) }
}
