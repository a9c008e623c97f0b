/**
 * The programs that tests run for real, and `npm run services`, which installs those that are
 * missing: as root on Debian or Ubuntu, by apt-get. Elsewhere it prints what to install. Tests that
 * need a program that is not there fail; none is ever skipped.
 */
import { execFileSync } from 'node:child_process'
import { accessSync, constants, existsSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** Each command and its Debian package. */
const PACKAGES = {
  nginx: 'nginx-light',
  caddy: 'caddy',
  haproxy: 'haproxy',
  openssl: 'openssl',
  curl: 'curl',
  nghttp: 'nghttp2-client',
  h2load: 'nghttp2-client',
  'redis-server': 'redis-server',
  'redis-cli': 'redis-tools',
  // Its dependencies bring the headers of the C library, which those of gcc do not.
  cc: 'g++',
  psql: 'postgresql',
  pgbouncer: 'pgbouncer',
  promtool: 'prometheus',
  chromium: 'chromium',
}

/** Where Debian keeps servers; the PATH of a user who is not root lacks it. */
const SERVER_FOLDERS = ['/usr/local/sbin', '/usr/sbin', '/sbin']
const INSTALL_MS_MAX = 10 * 60_000

/** Installs missing packages if it can, and returns the commands that are still missing. */
export function installServices() {
  const missing = findMissing()
  if (missing.length === 0) return []
  const packages = packagesOf(missing)
  if (process.getuid?.() === 0 && findOnPath('apt-get') !== undefined) install(packages)
  const left = findMissing()
  if (left.length > 0) console.error(describeMissing(left))
  return left
}

/** The path of a service, or an error that states how to install it. */
export function findService(service) {
  const path = findOnPath(service)
  if (path !== undefined) return path
  throw new Error(`${service}: found none on the PATH. ${adviceFor([service])}`)
}

/** @param {readonly string[]} commands */
export function describeMissing(commands) {
  return [
    `Tests need programs that are not installed: ${commands.join(', ')}.`,
    `The tests that run them will fail. ${adviceFor(commands)}`,
  ].join('\n')
}

function adviceFor(commands) {
  const packages = packagesOf(commands).join(' ')
  return `Install it, on Debian: apt-get install --no-install-recommends ${packages}`
}

/** Each once: a package may have several of the commands. */
const packagesOf = (commands) => [...new Set(commands.map((command) => PACKAGES[command]))]

function findMissing() {
  return Object.keys(PACKAGES).filter((command) => findOnPath(command) === undefined)
}

function findOnPath(command) {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), ...SERVER_FOLDERS]
  return folders.map((folder) => join(folder, command)).find(isExecutable)
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Debian starts a server when it is installed, unless this file answers that it may not. */
const POLICY_FILE = '/usr/sbin/policy-rc.d'
const POLICY = '#!/bin/sh\nexit 101\n'

/** Logs a failure and continues: only the tests that need the missing service fail. */
function install(packages) {
  console.log(`Installing ${packages.join(', ')} for the tests. This takes a minute or two, once.`)
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
 * Installs all together, or one by one if that fails: apt-get installs none where it does not know
 * one. Returns a line for each that could not be installed.
 */
export function installAll(packages, installThese) {
  try {
    installThese(packages)
    return []
  } catch (error) {
    if (packages.length <= 1) return [describeFailure(packages, error)]
    return packages.flatMap((name) => installAll([name], installThese))
  }
}

function describeFailure(packages, error) {
  return `Could not install ${packages.join(', ')}: ${messageOf(error)}`
}

function aptGet(...args) {
  // Waits for the lock of another installation.
  execFileSync('apt-get', ['-qq', '-o', 'DPkg::Lock::Timeout=120', ...args], {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: INSTALL_MS_MAX,
  })
}

/** apt-get reports the reason of a failure in stderr, not in the error of the call. */
function messageOf(error) {
  const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : ''
  return stderr === '' ? String(error) : stderr
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  if (installServices().length > 0) process.exitCode = 1
  else console.log('All programs that the tests run are installed.')
}
