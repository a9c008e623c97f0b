/** Rule stores in temporary folders, and disks and processes that fail on demand. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type FileSystem, type OpenFile, realFileSystem } from './fs.js'
import { type FileStoreOptions, openFileStore } from './file-store.js'
import { type LockOwner, processContext } from './lock-owner.js'
import type { RuleStore } from '../rule-store.js'

const folders = new Set<string>()
const stores = new Set<RuleStore>()

/** The folder of a store that is not there yet. */
export function makeRulesFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-rules-'))
  folders.add(folder)
  return join(folder, 'rules')
}

/** Closed by `closeStores`, if not before. */
export async function openStore(
  folder: string,
  options: Partial<FileStoreOptions> = {},
): Promise<RuleStore> {
  const clock = { now: () => Date.UTC(2026, 0, 1) }
  const store = await openFileStore({ folder, clock, release: '0.1.0', ...options })
  stores.add(store)
  return store
}

export async function closeStores(): Promise<void> {
  for (const store of stores) await store.close()
  stores.clear()
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  folders.clear()
}

export function readRules(folder: string, name = 'rules.yaml'): string {
  return readFileSync(join(folder, name), 'utf8')
}

export function filesIn(folder: string): readonly string[] {
  return readdirSync(folder).toSorted()
}

/** The context of a process on another host, or of one that died. */
export function lockOwner(more: Partial<LockOwner>): LockOwner {
  return { ...processContext('0.1.0').self, ...more }
}

/** A disk whose steps can fail: `fail` is called before each step, and may throw. */
export function failingFileSystem(
  fail: (step: string, path: string, bytes?: Uint8Array) => void | Promise<void>,
): FileSystem {
  const wrapped = (file: OpenFile, path: string): OpenFile => ({
    read: file.read.bind(file),
    stat: file.stat.bind(file),
    close: () => file.close(),
    write: (async (bytes: Uint8Array, offset: number, length: number) => {
      await fail('write', path, bytes)
      return file.write(bytes, offset, length)
    }) as OpenFile['write'],
    truncate: async (length) => {
      await fail('truncate', path)
      await file.truncate(length)
    },
    sync: async () => {
      await fail('sync', path)
      await file.sync()
    },
    datasync: async () => {
      await fail('datasync', path)
      await file.datasync()
    },
  })
  return {
    ...realFileSystem,
    open: async (path, flags, mode) => {
      await fail('open', path)
      return wrapped(await realFileSystem.open(path, flags, mode), path)
    },
    rename: async (from, to) => {
      await fail('rename', to)
      await realFileSystem.rename(from, to)
    },
    link: async (from, to) => {
      await fail('link', to)
      await realFileSystem.link(from, to)
    },
    unlink: async (path) => {
      await fail('unlink', path)
      await realFileSystem.unlink(path)
    },
  }
}

export function fileSystemError(code: string): Error {
  return Object.assign(new Error(`${code}: as the test wants it`), { code })
}
