/**
 * Builds the dashboard page if one of its inputs has changed: `npm run build` runs before every
 * start and every test.
 */
import { hash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const page = join(root, 'packages/dashboard')
const stamp = join(page, 'dist/.built')
const RUNBOOK = 'docs/guides/runbook.md'

/** The inputs of the page and of its build. */
const SOURCES = [
  RUNBOOK,
  'packages/client/src',
  'packages/dashboard/index.html',
  'packages/dashboard/package.json',
  'packages/dashboard/public',
  'packages/dashboard/src',
  'packages/dashboard/vite.config.ts',
  'tools/build-dashboard.mjs',
  'tools/runbook-page.mjs',
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

async function main() {
  const wanted = sourceHash()
  const isThere = existsSync(stamp) && existsSync(join(page, 'dist/index.html'))
  if (isThere && readFileSync(stamp, 'utf8') === wanted) return
  // Tests set another value, which makes the page a tenth larger; they must test what is shipped.
  process.env.NODE_ENV = 'production'
  // Imported only if needed: loading it takes longer than all of the above.
  const { build } = await import('vite')
  const { runbookPage } = await import('./runbook-page.mjs')
  await build({ configFile: join(page, 'vite.config.ts'), logLevel: 'warn' })
  const runbook = runbookPage(readFileSync(join(root, RUNBOOK), 'utf8'))
  writeFileSync(join(page, 'dist/runbook.html'), runbook)
  writeFileSync(stamp, wanted)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main()
