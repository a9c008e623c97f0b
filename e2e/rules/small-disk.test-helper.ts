/**
 * A small disk for the data directory of a server: a tmpfs in a mount namespace, which can be
 * filled, emptied and made read-only. It needs no root where unprivileged namespaces are allowed.
 */
import { execFileSync } from 'node:child_process'
import { closeSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeFolder, type Program, startProgram, waitFor } from '../process.test-helper.js'

const COMMAND = fileURLToPath(new URL('../../packages/cli/bin/sluice.mjs', import.meta.url))
export const TOKEN = 'e2e-admin-token-of-a-hundred-and-twenty-eight-bits'
const FREE = {
  SLUICE_GATEWAY_LISTEN: '127.0.0.1:0',
  SLUICE_API_LISTEN: '127.0.0.1:0',
  SLUICE_GRPC_LISTEN: '127.0.0.1:0',
  SLUICE_ADMIN_LISTEN: '127.0.0.1:0',
  SLUICE_ADMIN_TOKEN: TOKEN,
}
const SIZE = '1m'
const PAGE_BYTES = 4096
const PAGES_MAX = 1024

export interface DiskServer {
  readonly program: Program
  readonly api: string
  readonly admin: string
}

export interface SmallDisk {
  /** The path of the data directory for a server on this disk. */
  readonly dataDir: string
  /** The path of a file of the data directory for this process. */
  readonly path: (name: string) => string
  fill(): void
  empty(): void
  remount(mode: 'ro' | 'rw'): void
  run(env?: Readonly<Record<string, string>>): Program
  /** Resolves when it listens. */
  start(env?: Readonly<Record<string, string>>): Promise<DiskServer>
}

export async function makeSmallDisk(): Promise<SmallDisk> {
  const folder = makeFolder()
  const isRoot = process.getuid?.() === 0
  const script = `mount -t tmpfs -o size=${SIZE} tmpfs "$0" && echo mounted $$ && exec sleep 600`
  const spaces = isRoot ? ['--mount'] : ['--user', '--map-root-user', '--mount']
  const holder = startProgram('unshare', [...spaces, 'sh', '-c', script, folder], { cwd: '/' })
  // Without permission it exits and says why; these tests cannot run without it.
  await waitFor(holder, () => holder.output().includes('mounted'))
  const pid = /mounted (\d+)/.exec(holder.output())?.[1] ?? ''
  const inside = [
    '--target',
    pid,
    '--mount',
    ...(isRoot ? [] : ['--user', '--preserve-credentials']),
  ]
  const path = (name: string) => join(`/proc/${pid}/root`, folder, name)
  const run = (env: Readonly<Record<string, string>> = {}) =>
    startProgram('nsenter', [...inside, '--', process.execPath, COMMAND, 'serve', '--json'], {
      cwd: '/',
      env: { ...FREE, SLUICE_DATA_DIR: join(folder, 'data'), ...env },
    })
  return {
    dataDir: join(folder, 'data'),
    path: (name) => path(join('data', name)),
    fill: () => fill(path('filler')),
    empty: () => rmSync(path('filler')),
    remount: (mode) =>
      void execFileSync('nsenter', [...inside, '--', 'mount', '-o', `remount,${mode}`, folder]),
    run,
    async start(env) {
      const program = run(env)
      await waitFor(program, () => /^\{"gateway".*\}$/m.test(program.output()))
      const line = /^\{"gateway".*\}$/m.exec(program.output())?.[0] ?? ''
      return { program, ...(JSON.parse(line) as Pick<DiskServer, 'api' | 'admin'>) }
    },
  }
}

/** Fills the disk until not one byte is left. */
function fill(file: string): void {
  const fd = openSync(file, 'w')
  try {
    for (let pages = 0; pages < PAGES_MAX; pages++) writeSync(fd, Buffer.alloc(PAGE_BYTES))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return
    throw error
  } finally {
    closeSync(fd)
  }
  throw new Error(`the disk took ${PAGES_MAX} pages; it is larger than it should be`)
}
