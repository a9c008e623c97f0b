/**
 * Reads the files of a configuration directory: all regular files below it, as envoyproxy/ratelimit
 * does, whatever their names end with. Hidden files and copies of editors are left out.
 */
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { show } from '@sluice/core'
import { readIdentity, readWholeFile } from '@sluice/limiter/internal'

/** A mounted volume has a handful; each is a system call at every poll. */
const FILES_MAX = 1000
const FOLDERS_MAX = 100
const DEPTH_MAX = 16
/** All files together; a ConfigMap of Kubernetes has at most 1 MiB. */
const TEXT_LENGTH_MAX = 64 * 1024 * 1024
const PATH_SHOWN_MAX = 256

/**
 * Copies that editors and tools leave beside a file. A second copy of a domain is an error, so
 * nobody can have them for their content.
 */
const COPY_ENDINGS = ['~', '.bak', '.orig', '.rej', '.swo', '.swp', '.swx', '.tmp']

export interface ConfigFile {
  /** As messages name it: the directory and the path below it. */
  readonly file: string
  readonly text: string
}

export interface ConfigListing {
  /** Paths of files, in the order in which they are merged: by their names. */
  readonly files: readonly string[]
  /** Hidden files, copies and what is no file. */
  readonly skipped: readonly string[]
  /** All folders, for watching them. */
  readonly folders: readonly string[]
  /** Changes when a file is added, removed, written or replaced, or a link points elsewhere. */
  readonly identity: string
}

export interface ConfigSnapshot {
  readonly files: readonly ConfigFile[]
  readonly identity: string
}

/** Rejects with a message that names the directory or the file. */
export async function listConfigFiles(directory: string): Promise<ConfigListing> {
  const walk: Walk = { files: [], skipped: [], folders: [], visited: new Set() }
  await walkFolder(directory, walk, 0)
  if (walk.files.length === 0) {
    throw new Error(`${shown(directory)}: found no files; accepted: a directory with YAML files`)
  }
  const files = walk.files.sort()
  const identities: string[] = []
  for (const file of files) identities.push(`${file} ${await readIdentity(file)}`)
  return { files, skipped: walk.skipped, folders: walk.folders, identity: identities.join('\n') }
}

/** Rejects with a message that names the directory or the file. */
export async function readConfigFiles(paths: readonly string[]): Promise<ConfigSnapshot> {
  const files: ConfigFile[] = []
  const identities: string[] = []
  let length = 0
  for (const file of paths) {
    const { text, identity } = await readWholeFile(file)
    length += text.length
    if (length > TEXT_LENGTH_MAX) {
      const most = `${TEXT_LENGTH_MAX} characters`
      throw new Error(`${shown(file)}: found more than ${most} in all files; accepted: up to that`)
    }
    files.push({ file, text })
    identities.push(`${file} ${identity}`)
  }
  return { files, identity: identities.join('\n') }
}

interface Walk {
  readonly files: string[]
  readonly skipped: string[]
  readonly folders: string[]
  /** Folders by device and inode: links may lead to a folder twice, or around in a circle. */
  readonly visited: Set<string>
}

async function walkFolder(folder: string, walk: Walk, depth: number): Promise<void> {
  const names = await readFolder(folder, walk)
  if (names === undefined) return
  walk.folders.push(folder)
  if (walk.folders.length > FOLDERS_MAX || depth > DEPTH_MAX) {
    const found = `more than ${FOLDERS_MAX} folders, or ${DEPTH_MAX} within each other`
    throw new Error(`${shown(folder)}: found ${found}; accepted: up to that`)
  }
  for (const name of names.sort()) {
    const path = join(folder, name)
    if (isSkipped(name)) {
      walk.skipped.push(path)
      continue
    }
    // Follows links: Kubernetes mounts every file as one.
    const stats = await statOf(path)
    if (stats.isDirectory()) await walkFolder(path, walk, depth + 1)
    else if (stats.isFile()) walk.files.push(path)
    else walk.skipped.push(path)
    if (walk.files.length > FILES_MAX) {
      throw new Error(`${shown(folder)}: found more than ${FILES_MAX} files; accepted: up to that`)
    }
  }
}

/** Returns undefined for a folder that was read before by another path. */
async function readFolder(folder: string, { visited }: Walk): Promise<string[] | undefined> {
  const { dev, ino } = await statOf(folder)
  const id = `${dev}:${ino}`
  if (visited.has(id)) return undefined
  visited.add(id)
  try {
    return await readdir(folder)
  } catch (error) {
    throw pathError(folder, error)
  }
}

async function statOf(path: string) {
  try {
    return await stat(path)
  } catch (error) {
    throw pathError(path, error)
  }
}

function isSkipped(name: string): boolean {
  if (name.startsWith('.') || (name.startsWith('#') && name.endsWith('#'))) return true
  return COPY_ENDINGS.some((ending) => name.endsWith(ending))
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or directory',
  ENOTDIR: 'found a file; accepted: a directory',
  EACCES: 'the process may not read it',
  ELOOP: 'found a link that leads to itself; accepted: a file or a directory',
}

function pathError(path: string, error: unknown): Error {
  const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
  return new Error(`${shown(path)}: ${REASONS[code] ?? code}`, { cause: error })
}

function shown(path: string): string {
  return show(path, PATH_SHOWN_MAX)
}
