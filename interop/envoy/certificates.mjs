/** Certificates for TLS on the loopback, by openssl: an authority, and a pair for each name. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onExit } from './exit-cleanup.mjs'

const CURVE = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
const DAYS = '2'

/** Files that are there until this process ends; `text` reads one. */
export function makeCertificates(names) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-interop-tls-'))
  onExit(() => rmSync(folder, { recursive: true, force: true }))
  const file = (name, kind) => join(folder, `${name}.${kind}`)
  const openssl = (...args) => execFileSync('openssl', args, { stdio: 'ignore' })
  const ca = { cert: file('ca', 'cert'), key: file('ca', 'key') }
  const request = (name) => [...CURVE, '-keyout', file(name, 'key'), '-subj', `/CN=${name}`]
  openssl('req', '-x509', ...request('ca'), '-out', ca.cert, '-days', DAYS)
  writeFileSync(file('names', 'ext'), 'subjectAltName=IP:127.0.0.1,DNS:localhost\n')
  for (const name of names) {
    openssl('req', ...request(name), '-out', file(name, 'csr'))
    const signed = ['-CA', ca.cert, '-CAkey', ca.key, '-CAcreateserial', '-days', DAYS]
    const parts = ['-in', file(name, 'csr'), '-extfile', file('names', 'ext')]
    openssl('x509', '-req', ...parts, ...signed, '-out', file(name, 'cert'))
  }
  return { file, text: (name, kind) => readFileSync(file(name, kind), 'utf8') }
}
