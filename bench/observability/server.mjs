/** `sluice serve` as its users start it, on free ports, with the rules of this benchmark. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
process.chdir(folder)
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
Object.assign(process.env, {
  SLUICE_RULES: fileURLToPath(new URL('./rules.yaml', import.meta.url)),
  SLUICE_GATEWAY_LISTEN: '127.0.0.1:0',
  SLUICE_API_LISTEN: '127.0.0.1:0',
  SLUICE_GRPC_LISTEN: '127.0.0.1:0',
  SLUICE_ADMIN_LISTEN: '127.0.0.1:0',
  SLUICE_ADMIN_TOKEN: process.argv[2],
})
process.argv = [process.argv[0], 'sluice', 'serve', '--json']
await import('../../packages/cli/bin/sluice.mjs')
