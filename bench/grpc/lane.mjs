import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createUnaryServer } from '../../packages/http2-unary/dist/index.js'
import { ANSWER } from './messages.mjs'

const kind = process.argv[2]
const server = createUnaryServer({
  methods: { '/bench.Service/Call': kind === 'late' ? async () => ANSWER : () => ANSWER },
  ...(kind === 'tls' && { tls: makePair() }),
})
const { port } = await server.listen({ host: '127.0.0.1', port: 0 })
const scheme = kind === 'tls' ? 'https' : 'http'
console.log(JSON.stringify({ url: `${scheme}://127.0.0.1:${port}` }))

function makePair() {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-tls-'))
  const [key, cert] = [join(folder, 'key'), join(folder, 'cert')]
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const args = ['req', '-x509', ...curve, '-keyout', key, '-out', cert, '-subj', '/CN=localhost']
  execFileSync('openssl', args, { stdio: 'ignore' })
  const pair = { key: readFileSync(key), cert: readFileSync(cert) }
  rmSync(folder, { recursive: true })
  return pair
}
