/**
 * Builds the dashboard page if one of its inputs has changed: `npm run build` runs before every
 * start and every test. The page becomes a module with the texts of its files, which the server
 * imports.
 */
import { hash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const page = join(root, 'packages/dashboard')
const output = join(page, 'dist/page')
const module = join(page, 'dist/files.js')
const stamp = join(page, 'dist/.built')
const RUNBOOK = 'docs/guides/runbook.md'

/** The inputs of the page and of its build. */
const SOURCES = [
  RUNBOOK,
  'packages/client/src',
  'packages/core/src/text',
  'packages/dashboard/index.html',
  'packages/dashboard/package.json',
  'packages/dashboard/public',
  'packages/dashboard/src',
  'packages/dashboard/vite.config.ts',
  'tools/build-dashboard.mjs',
  'tools/runbook-page.mjs',
  'tools/source-paths.mjs',
]
const PACKAGES = ['marked', 'preact', '@preact/signals', '@preact/signals-core', 'uplot', 'vite']

/** @returns {string[]} */
function filesOf(path) {
  const entries = readdirSync(join(root, path), { withFileTypes: true })
  return entries
    .flatMap((entry) => {
      const below = `${path}/${entry.name}`
      if (entry.isDirectory()) return filesOf(below)
      return /\.test(-helper)?\.tsx?$/.test(entry.name) ? [] : [below]
    })
    .toSorted()
}

/** A hash of all inputs: equal hashes mean an equal page. */
export function sourceHash() {
  const files = SOURCES.flatMap((path) => (/\.\w+$/.test(path) ? [path] : filesOf(path)))
  const parts = files.map((path) => `${path} ${hash('sha256', readFileSync(join(root, path)))}`)
  const locked = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages
  const versions = PACKAGES.map((name) => `${name} ${locked[`node_modules/${name}`]?.version}`)
  return hash('sha256', [...parts, ...versions].join('\n'))
}

/** The module that `files.d.ts` of the package declares. */
function filesModule(folder) {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted()
    .map((file) => {
      const path = `/${relative(folder, file).split(sep).join('/')}`
      return `  [${JSON.stringify(path)}, ${JSON.stringify(textOf(decoder, file))}],`
    })
  return `export const dashboardFiles = new Map([\n${entries.join('\n')}\n])\n`
}

function textOf(decoder, file) {
  try {
    return decoder.decode(readFileSync(file))
  } catch (error) {
    const accepted = 'text, such as an SVG for an image; the server has the files as strings'
    throw new Error(`${file}: found bytes that are not UTF-8; accepted: ${accepted}`, {
      cause: error,
    })
  }
}

async function main() {
  const wanted = sourceHash()
  const isThere = existsSync(stamp) && existsSync(module)
  if (isThere && readFileSync(stamp, 'utf8') === wanted) return
  // Tests set another value, which makes the page a tenth larger; they must test what is shipped.
  process.env.NODE_ENV = 'production'
  // Imported only if needed: loading it takes longer than all of the above.
  const { build } = await import('vite')
  const { runbookPage } = await import('./runbook-page.mjs')
  await build({ configFile: join(page, 'vite.config.ts'), logLevel: 'warn' })
  const runbook = runbookPage(readFileSync(join(root, RUNBOOK), 'utf8'))
  writeFileSync(join(output, 'runbook.html'), runbook)
  writeFileSync(module, filesModule(output))
  writeFileSync(stamp, wanted)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main()
