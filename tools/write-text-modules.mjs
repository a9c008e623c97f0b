/**
 * `npm run generate`: writes the modules of `packages/<name>/src/generated`, which hold the texts
 * that the packages need when they run: Lua scripts, migrations, the example rules and the release.
 *
 * A file that is read by its path is lost by every bundler, while a module is kept. The modules are
 * not committed: `npm ci`, `npm run build` and `npm run types` write them.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join, posix, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { writeIfChanged } from './write-if-changed.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** Each generated module: the function that writes it from the files of the repository. */
const MODULES = {
  'packages/limiter/src/generated/lua-texts.ts': luaTexts,
  'packages/server/src/generated/migration-texts.ts': migrationTexts,
  'packages/server/src/generated/example-rules.ts': exampleRules,
  'packages/server/src/generated/release.ts': (root) => release(root, 'packages/server'),
  'packages/cli/src/generated/release.ts': (root) => release(root, 'packages/cli'),
}

/**
 * Every module by its path, as it has to be.
 *
 * @param {string} [root] @returns {Map<string, string>}
 */
export function textModules(root = ROOT) {
  return new Map(
    Object.entries(MODULES).map(([path, write]) => {
      return [path, `${HEAD}\n${write(root)}`]
    }),
  )
}

const HEAD = '// Written by tools/write-text-modules.mjs; `npm run generate` writes it again.'

/** A text as TypeScript. Line ends are those of the repository, whatever the checkout has. */
const quote = (text) => JSON.stringify(text.replaceAll('\r\n', '\n'))

/** The texts below a folder, by their path without the ending, in the order of the alphabet. */
function textsBelow(folder, ending) {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith(ending))
    .map((file) => [file.split(sep).join(posix.sep), readFileSync(join(folder, file), 'utf8')])
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
}

function luaTexts(root) {
  const entries = textsBelow(join(root, 'packages/limiter/src/lua'), '.lua').map(
    ([file, text]) => `  [${quote(file.slice(0, -'.lua'.length))}, ${quote(text)}],`,
  )
  return `/** The Lua files of \`src/lua\`, by their name without the ending. */
export const LUA_TEXTS: ReadonlyMap<string, string> = new Map([
${entries.join('\n')}
])
`
}

const MIGRATION = /^\d{4}-[a-z0-9-]+\.sql$/

function migrationTexts(root) {
  const entries = textsBelow(join(root, 'packages/server/migrations'), '.sql').map(
    ([file, text]) => {
      if (!MIGRATION.test(file)) {
        throw new Error(
          `packages/server/migrations/${file}: found a name; accepted: 0001-what-it-adds.sql`,
        )
      }
      return `  { file: ${quote(file)}, text: ${quote(text)} },`
    },
  )
  return `export interface MigrationText {
  /** Begins with the four digits of its number. */
  readonly file: string
  readonly text: string
}

/** The files of \`migrations\`, in the order of their numbers. */
export const MIGRATION_TEXTS: readonly MigrationText[] = [
${entries.join('\n')}
]
`
}

function exampleRules(root) {
  const text = readFileSync(join(root, 'packages/server/example/rules.yaml'), 'utf8')
  return `/** The text of \`example/rules.yaml\`. */
export const EXAMPLE_RULES: string = ${quote(text)}
`
}

function release(root, folder) {
  const { version } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'))
  return `/** The release of Sluice that runs: the version of the package. */
export const RELEASE: string = ${quote(version)}
`
}

function main() {
  const modules = textModules()
  const folders = new Set([...modules.keys()].map((path) => posix.dirname(path)))
  for (const folder of folders) {
    mkdirSync(join(ROOT, folder), { recursive: true })
    for (const file of readdirSync(join(ROOT, folder))) {
      if (!modules.has(`${folder}/${file}`)) rmSync(join(ROOT, folder, file))
    }
  }
  for (const [path, text] of modules) writeIfChanged(join(ROOT, path), text)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) main()
