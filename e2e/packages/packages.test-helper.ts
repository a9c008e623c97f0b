/** The packages as npm packs and installs them. */
import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { makeFolder } from '../process.test-helper.js'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const NODE_VERSIONS = join(ROOT, 'e2e/packages/node-versions')

/** Installing from the registry takes as long as the network does. */
const NPM_MS_MAX = 600_000
const OUTPUT_BYTES_MAX = 16 * 1024 * 1024

export interface Manifest {
  readonly name: string
  readonly version: string
  readonly description?: string
  readonly license?: string
  readonly keywords?: readonly string[]
  readonly publishConfig?: Readonly<Record<string, string>>
  readonly repository?: unknown
  readonly exports: Readonly<Record<string, Readonly<Record<string, string>>>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>
}

const readJson = (path: string): unknown => JSON.parse(readFileSync(join(ROOT, path), 'utf8'))

/** The folder of every package. */
export const FOLDERS = (readJson('package.json') as { readonly workspaces: readonly string[] })
  .workspaces

export const manifestOf = (folder: string) => readJson(`${folder}/package.json`) as Manifest

/** Every name that users may import, such as `@sluice/limiter/redis`. */
export const ENTRY_POINTS: readonly string[] = FOLDERS.map(manifestOf).flatMap(
  ({ name, exports }) => Object.keys(exports).map((entry) => name + entry.slice(1)),
)

/**
 * What npm sets for its own scripts would lead an npm inside of one to the repository, with the
 * settings of the repository.
 */
function environment(): NodeJS.ProcessEnv {
  const own = /^npm_(package_|lifecycle_|config_(local_prefix|workspace|prefix|engine_strict)$)/
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !own.test(name)))
}

interface Failure {
  readonly code?: number | string | null
  readonly signal?: NodeJS.Signals | null
  readonly stdout?: string
  readonly stderr?: string
}

/** What a program printed; rejects with its folder, how it ended and all of its output. */
export async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  const options = {
    cwd,
    env: environment(),
    timeout: NPM_MS_MAX,
    maxBuffer: OUTPUT_BYTES_MAX,
  }
  try {
    return (await promisify(execFile)(command, args, options)).stdout
  } catch (error) {
    // Not as the cause of the new error, which would print the command and the output twice more.
    const { code, signal, stdout = '', stderr = '' } = error as Failure
    const end = signal ? `was ended by ${signal}` : `failed with ${code}`
    throw new Error(`${command} ${args.join(' ')}\nin ${cwd} ${end}:\n${stdout}${stderr}`)
  }
}

/** A program of a development dependency of the repository. */
export const binaryOf = (name: string) => join(ROOT, 'node_modules/.bin', name)

/**
 * Packs every package; resolves to the path of each archive by the name of its package.
 * Without their scripts, what the test run has built is packed.
 */
export async function packAll(scripts: 'with scripts' | 'without scripts') {
  const folder = makeFolder()
  const flags = scripts === 'with scripts' ? [] : ['--ignore-scripts']
  await run('npm', ['pack', '--workspaces', ...flags, '--pack-destination', folder], ROOT)
  const archives = FOLDERS.map((path) => {
    const { name, version } = manifestOf(path)
    const file = `${name.slice(1).replace('/', '-')}-${version}.tgz`
    return [name, join(folder, file)] as const
  })
  return new Map<string, string>(archives)
}

interface Lock {
  readonly packages: Readonly<
    Record<string, { readonly version?: string; readonly link?: boolean } | undefined>
  >
}

/** The lock of the repository, without the packages of its own, which are installed as packed. */
function lockOfOthers(): object {
  const { packages } = readJson('package-lock.json') as Lock
  const others = Object.entries(packages).filter(
    ([place, entry]) => place.startsWith('node_modules/') && entry?.link !== true,
  )
  return {
    lockfileVersion: 3,
    requires: true,
    packages: { '': {}, ...Object.fromEntries(others) },
  }
}

/**
 * Installs into a new folder that has no packages; resolves to the folder. All but the packages of
 * Sluice have the versions that the repository uses, so that a release of any of them cannot make
 * a test fail. What npm has in its cache needs no registry.
 */
export async function installInto(specs: readonly string[]): Promise<string> {
  const folder = makeFolder()
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true }))
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lockOfOthers()))
  const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline']
  await run('npm', ['install', ...flags, ...specs], folder)
  return folder
}

/** Every optional peer of the packages and its types, in the version that this repository uses. */
export function peerSpecs(): readonly string[] {
  const { packages } = readJson('package-lock.json') as Lock
  const peers = FOLDERS.flatMap((folder) => Object.keys(manifestOf(folder).peerDependencies ?? {}))
  const wanted = [...peers, ...peers.map((name) => `@types/${name}`), '@types/node']
  return [...new Set(wanted)].flatMap((name) => {
    const version = packages[`node_modules/${name}`]?.version
    return version === undefined ? [] : [`${name}@${version}`]
  })
}

export interface NodeVersion {
  readonly major: string
  readonly path: string
}

/** The versions of Node that are supported, installed once. */
export async function installNodes(): Promise<readonly NodeVersion[]> {
  const { packages } = readJson('e2e/packages/node-versions/package-lock.json') as Lock
  const nodes = NODE_MAJORS.map((major) => ({
    major,
    path: join(NODE_VERSIONS, `node_modules/node-${major}/bin/node`),
    version: packages[`node_modules/node-${major}`]?.version,
  }))
  const isThere = await Promise.all(
    nodes.map(async ({ path, version }) => {
      return existsSync(path) && (await run(path, ['--version'], ROOT)).trim() === `v${version}`
    }),
  )
  if (isThere.includes(false)) await run('npm', ['ci', '--prefer-offline'], NODE_VERSIONS)
  return nodes
}

export const NODE_MAJORS = ['20', '22', '24'] as const
