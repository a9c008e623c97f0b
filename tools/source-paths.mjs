/**
 * Where the source of each entry point of each package is. Type checks, tests and the dashboard's
 * build use sources, so that they need no build; `exports` name only what is published.
 *
 * Run as a program it writes tsconfig.sources.json, which `npm run layout` checks.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { writeIfChanged } from './write-if-changed.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
export const SOURCES_FILE = 'tsconfig.sources.json'

/**
 * The name of every entry point that has a source, with the path of that source.
 *
 * @param {string} [root] @returns {[name: string, path: string][]}
 */
export function sourcePaths(root = ROOT) {
  return readdirSync(join(root, 'packages')).flatMap((folder) => {
    const manifest = join(root, 'packages', folder, 'package.json')
    if (!existsSync(manifest)) return []
    const { name, exports = {} } = JSON.parse(readFileSync(manifest, 'utf8'))
    return Object.entries(exports).flatMap(([entry, target]) => {
      const built = /^\.\/dist\/(.+)\.js$/.exec(target.default ?? '')?.[1]
      const path = `packages/${folder}/src/${built}.ts`
      return existsSync(join(root, path)) ? [[name + entry.slice(1), path]] : []
    })
  })
}

/** The same for `resolve.alias` of Vite and Vitest. @param {string} [root] */
export function sourceAliases(root = ROOT) {
  return sourcePaths(root).map(([name, path]) => ({
    find: new RegExp(`^${name}$`),
    replacement: join(root, path),
  }))
}

/** The text of tsconfig.sources.json. @param {string} [root] */
export function sourcesConfig(root = ROOT) {
  const paths = sourcePaths(root).map(([name, path]) => `      "${name}": ["./${path}"]`)
  return `{
  "compilerOptions": {
    "paths": {
${paths.join(',\n')}
    }
  }
}
`
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  writeIfChanged(join(ROOT, SOURCES_FILE), sourcesConfig())
}
