/**
 * `prepack` of every package: builds all of them, as each needs the types of others, and removes
 * what earlier builds left in `dist` of this one. Fails if the build does, or if a file that the
 * manifest names is missing, so that nothing is packed that does not work.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

const OUTPUT = /(\.js|\.js\.map|\.d\.ts)$/
const TEST = /\.test(-helper)?\.tsx?$/

/** The files of `dist` that no source makes. @param {string} folder @returns {string[]} */
export function staleFiles(folder) {
  const dist = join(folder, 'dist')
  // The dashboard's files are not made by tsc, and packed by their names.
  if (!existsSync(join(folder, 'src/index.ts')) || !existsSync(dist)) return []
  const sources = new Set(
    readdirSync(join(folder, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.tsx?$/.test(file) && !TEST.test(file))
      .map((file) => file.replace(/\.tsx?$/, '')),
  )
  return readdirSync(dist, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== '.tsbuildinfo')
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => {
      const name = file.slice(dist.length + 1)
      return !OUTPUT.test(name) || !sources.has(name.replace(OUTPUT, ''))
    })
}

/** The files that a manifest names and that do not exist. @returns {string[]} */
export function missingFiles(folder) {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const named = [
    ...Object.values(manifest.exports ?? {}).flatMap((target) => Object.values(target)),
    ...Object.values(manifest.bin ?? {}),
    'README.md',
    'LICENSE',
  ]
  return named.filter((file) => !existsSync(join(folder, file)))
}

function main() {
  const folder = process.cwd()
  // What npm prints for the list of packed files goes to standard output; this does not.
  const stdio = ['ignore', process.stderr, 'inherit']
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: ROOT, stdio })
  for (const file of staleFiles(folder)) rmSync(file)
  const missing = missingFiles(folder)
  for (const file of missing) console.error(`${folder}/${file}: is named by package.json, missing`)
  if (missing.length > 0) process.exitCode = 1
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) main()
