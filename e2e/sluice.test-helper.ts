/** Starts `sluice serve` as users run it. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeFolder, startProgram, waitFor } from './process.test-helper.js'

const COMMAND = fileURLToPath(new URL('../packages/cli/bin/sluice.mjs', import.meta.url))

export interface SluiceOptions {
  readonly port: number
  readonly rules: string
  /** The text of sluice.yaml. */
  readonly config?: string
  readonly trustedProxies?: string
}

export interface Sluice {
  /** Accepts connections and answers nothing, like a machine that is out of memory. */
  freeze(): void
  thaw(): void
  stop(): Promise<void>
}

export async function startSluice(options: SluiceOptions): Promise<Sluice> {
  const { port, rules, config = '{}', trustedProxies = '127.0.0.1/32' } = options
  const folder = makeFolder()
  writeFileSync(join(folder, 'rules.yaml'), rules)
  writeFileSync(join(folder, 'sluice.yaml'), config)
  const program = startProgram(process.execPath, [COMMAND, 'serve', '--json'], {
    cwd: folder,
    env: {
      SLUICE_RULES: 'rules.yaml',
      SLUICE_API_LISTEN: `127.0.0.1:${port}`,
      SLUICE_GRPC_LISTEN: '127.0.0.1:0',
      SLUICE_GATEWAY_LISTEN: '127.0.0.1:0',
      SLUICE_ADMIN_LISTEN: '127.0.0.1:0',
      SLUICE_TRUSTED_PROXIES: trustedProxies,
      SLUICE_DATA_DIR: join(folder, 'data'),
    },
  })
  await waitFor(program, () => program.output().includes(`"api":"http://127.0.0.1:${port}"`))
  return {
    freeze: () => program.signal('SIGSTOP'),
    thaw: () => program.signal('SIGCONT'),
    stop: () => program.stop(),
  }
}
