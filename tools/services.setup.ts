/**
 * The programs that tests run for real. As root on Debian they are installed where they are
 * missing; elsewhere the tests that need them fail and say what to install. None is ever skipped.
 */
import { execFileSync } from 'node:child_process'
import { accessSync, constants, existsSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Each command, and the Debian package that has it. */
const PACKAGES = {
  nginx: 'nginx-light',
  caddy: 'caddy',
  haproxy: 'haproxy',
  openssl: 'openssl',
  curl: 'curl',
  'redis-server': 'redis-server',
  'redis-cli': 'redis-tools',
  // Its dependencies bring the headers of the C library, which those of gcc do not.
  cc: 'g++',
  psql: 'postgresql',
  pgbouncer: 'pgbouncer',
  promtool: 'prometheus',
  chromium: 'chromium',
} as const

export type Service = keyof typeof PACKAGES

const SERVICES = Object.keys(PACKAGES) as readonly Service[]

/** Where Debian keeps servers; the PATH of a user who is not root lacks it. */
const SERVER_FOLDERS = ['/usr/local/sbin', '/usr/sbin', '/sbin']
const INSTALL_MS_MAX = 10 * 60_000

export function setup(): void {
  const missing = SERVICES.filter((service) => findOnPath(service) === undefined)
  if (missing.length === 0 || process.getuid?.() !== 0) return
  if (findOnPath('apt-get') !== undefined) install(missing)
}

/** Where a service is, or an error that says how to get it. */
export function findService(service: Service): string {
  const path = findOnPath(service)
  if (path !== undefined) return path
  throw new Error(
    `${service}: found none on the PATH. Install it, on Debian: apt-get install --no-install-recommends ${PACKAGES[service]}`,
  )
}

function findOnPath(command: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), ...SERVER_FOLDERS]
  return folders.map((folder) => join(folder, command)).find(isExecutable)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Debian starts a server when it is installed; with this file there, it asks, and is told no. */
const POLICY_FILE = '/usr/sbin/policy-rc.d'
const POLICY = '#!/bin/sh\nexit 101\n'

/** A failure is told, and no more: only the tests that need what is missing fail. */
function install(services: readonly Service[]): void {
  const packages = services.map((service) => PACKAGES[service])
  console.log(`Installing ${packages.join(', ')} for the tests.`)
  const ownPolicy = !existsSync(POLICY_FILE)
  try {
    if (ownPolicy) writeFileSync(POLICY_FILE, POLICY, { mode: 0o755 })
    aptGet('update')
    const problems = installAll(packages, (names) =>
      aptGet('install', '-y', '--no-install-recommends', ...names),
    )
    for (const problem of problems) console.error(problem)
  } catch (error) {
    console.error(describeFailure(packages, error))
  } finally {
    if (ownPolicy) rmSync(POLICY_FILE, { force: true })
  }
}

/**
 * Together, or one by one if that fails: apt-get installs none where it does not know one. What
 * could not be installed is returned.
 */
export function installAll(
  packages: readonly string[],
  installThese: (packages: readonly string[]) => void,
): readonly string[] {
  try {
    installThese(packages)
    return []
  } catch (error) {
    if (packages.length <= 1) return [describeFailure(packages, error)]
    return packages.flatMap((name) => installAll([name], installThese))
  }
}

function describeFailure(packages: readonly string[], error: unknown): string {
  return `Could not install ${packages.join(', ')}: ${messageOf(error)}`
}

function aptGet(...args: readonly string[]): void {
  // Somebody else may be installing: their lock is waited for.
  execFileSync('apt-get', ['-qq', '-o', 'DPkg::Lock::Timeout=120', ...args], {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: INSTALL_MS_MAX,
  })
}

/** What apt-get says of its failure stands in its stderr, not in the error of the call. */
function messageOf(error: unknown): string {
  const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : ''
  return stderr === '' ? String(error) : stderr
}
