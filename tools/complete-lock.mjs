/**
 * `npm run lock`: writes package-lock.json, complete for every platform.
 *
 * Tools ship their binaries as one optional package per platform. A registry mirror that lacks
 * those of other platforms makes npm leave them out of the lockfile, and then `npm ci` refuses it.
 * This script adds them back with the platform that their names state, so that npm skips them on
 * other platforms.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const SYSTEMS = ['android', 'darwin', 'freebsd', 'linux', 'openharmony', 'win32']
const CPUS = ['arm64', 'arm', 'ia32', 'ppc64', 'riscv64', 's390x', 'wasm32', 'x64']

/** The platform of a binary package, from its name. */
export function platformOf(name) {
  const words = name.replace(/^.*\//, '').split('-')
  const cpu = CPUS.filter((known) => words.includes(known))
  const os = SYSTEMS.filter((known) => words.includes(known))
  const libc = words.some((word) => word.startsWith('musl')) ? ['musl'] : []
  return { ...(cpu.length && { cpu }), ...(os.length && { os }), ...(libc.length && { libc }) }
}

/** Adds every optional dependency that the lock lacks. Returns how many there were. */
export function completeLock(lock) {
  let added = 0
  for (const { optionalDependencies = {}, dev } of Object.values(lock.packages)) {
    for (const [name, version] of Object.entries(optionalDependencies)) {
      const place = `node_modules/${name}`
      const platform = platformOf(name)
      if (place in lock.packages || (platform.os ?? platform.cpu) === undefined) continue
      lock.packages[place] = { version, ...platform, ...(dev && { dev }), optional: true }
      added += 1
    }
  }
  const places = Object.keys(lock.packages).sort()
  lock.packages = Object.fromEntries(places.map((place) => [place, lock.packages[place]]))
  return added
}

function main() {
  execFileSync('npm', ['install', '--package-lock-only'], { stdio: 'inherit' })
  const lock = JSON.parse(readFileSync('package-lock.json', 'utf8'))
  const added = completeLock(lock)
  writeFileSync('package-lock.json', `${JSON.stringify(lock, null, 2)}\n`)
  console.log(`package-lock.json: ${added} packages of other platforms added`)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) main()
