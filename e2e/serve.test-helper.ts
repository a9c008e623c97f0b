/** `sluice serve` on free ports, for tests of the whole program. */
import { fileURLToPath } from 'node:url'
import { makeFolder, type Program, startProgram, waitFor } from './process.test-helper.js'

const COMMAND = fileURLToPath(new URL('../packages/cli/bin/sluice.mjs', import.meta.url))
const FREE = {
  SLUICE_GATEWAY_LISTEN: '127.0.0.1:0',
  SLUICE_API_LISTEN: '127.0.0.1:0',
  SLUICE_GRPC_LISTEN: '127.0.0.1:0',
  SLUICE_ADMIN_LISTEN: '127.0.0.1:0',
}

export interface RunningServer {
  readonly program: Program
  readonly folder: string
  readonly gateway: string
  readonly api: string
  readonly grpc: string
  readonly admin: string
}

export function run(
  args: readonly string[],
  env: Record<string, string> = {},
  folder = makeFolder(),
): Program {
  return startProgram(process.execPath, [COMMAND, ...args], {
    cwd: folder,
    env: { ...FREE, ...env },
  })
}

export async function start(
  env: Record<string, string> = {},
  folder = makeFolder(),
): Promise<RunningServer> {
  const program = run(['serve', '--json'], env, folder)
  await waitFor(program, () => /^\{"gateway".*\}$/m.test(program.output()))
  const line = /^\{"gateway".*\}$/m.exec(program.output())?.[0] ?? ''
  return {
    program,
    folder,
    ...(JSON.parse(line) as Pick<RunningServer, 'gateway' | 'api' | 'grpc' | 'admin'>),
  }
}

/** Its exit code and output. */
export async function waitForExit(
  program: Program,
): Promise<{ readonly code: number | null; readonly output: string }> {
  return { code: await program.code(), output: program.output() }
}
