/** The part of `npm run layout` that is about what the packages publish. */
import { builtinModules } from 'node:module'
import { posix } from 'node:path'
import { SOURCES_FILE } from './source-paths.mjs'

/**
 * The entry points that run wherever there is Fetch and Web Crypto, such as Workers, Deno and
 * browsers. One that no package exports is not checked.
 */
export const PORTABLE_ENTRY_POINTS = [
  '@sluice/api',
  '@sluice/client',
  '@sluice/core',
  '@sluice/core/config-reader',
  '@sluice/core/text',
  '@sluice/limiter',
  '@sluice/limiter/fetch',
  '@sluice/limiter/hono',
]

/** Globals that only Node has. `setImmediate` is not among them: it is used where it exists. */
const NODE_GLOBALS = /\b(Buffer|process|__dirname|__filename|require)\b(?=[.([])/

/**
 * Fails on a module of Node, or a global that only Node has, in a file that one of these entry
 * points loads.
 *
 * @param {readonly string[]} names
 * @param {ReadonlyMap<string, string>} sources the source of each entry point by its name
 * @param {(path: string) => string} read
 * @param {(text: string) => string} codeOf the text without comments and strings
 * @returns {string[]}
 */
export function checkPortable(names, sources, read, codeOf) {
  const visited = new Set()
  const problems = []
  const visit = (path, chain) => {
    if (visited.has(path)) return
    visited.add(path)
    const text = read(path)
    const way = [...chain, path]
    const found = NODE_GLOBALS.exec(codeOf(text))?.[1]
    if (found !== undefined) problems.push(`${way.join(' -> ')}: uses ${found}, ${REMEDY}`)
    for (const from of importsOf(text)) {
      if (isOfNode(from)) problems.push(`${way.join(' -> ')}: imports ${from}, ${REMEDY}`)
      const target = from.startsWith('.') ? sourceOf(path, from) : sources.get(from)
      if (target !== undefined) visit(target, way)
    }
  }
  for (const name of names) {
    const path = sources.get(name)
    if (path !== undefined) visit(path, [name])
  }
  return problems
}

const REMEDY = 'which runtimes other than Node do not have; use what the web has, or move it'

const isOfNode = (name) => name.startsWith('node:') || builtinModules.includes(name)

/** An import of types is erased; everything else is loaded. */
function importsOf(text) {
  const pattern =
    /\b(?:import|export)\b(?!\s+type\s+[{*\w])[^'"`;]*?\bfrom\s*'([^']+)'|\bimport\s*\(?\s*'([^']+)'/g
  return [...text.matchAll(pattern)].map((match) => match[1] ?? match[2] ?? '')
}

const sourceOf = (path, from) => posix.join(posix.dirname(path), from).replace(/\.js$/, '.ts')

const CONDITIONS = ['types', 'default']

/**
 * Fails on an entry point that names anything but built files: whatever else it names is not
 * published.
 *
 * @param {string} path @param {{ exports?: object }} manifest @returns {string[]}
 */
export function checkExports(path, { exports = {} }) {
  return Object.entries(exports).flatMap(([entry, target]) => {
    const found = Object.keys(target).join(', ')
    if (found === CONDITIONS.join(', ')) return []
    return [`${path}: exports["${entry}"]: found ${found}; accepted: ${CONDITIONS.join(', ')}`]
  })
}

/** Fails if tsconfig.sources.json misses an entry point. @returns {string[]} */
export function checkSourcesFile(found, wanted) {
  return found === wanted ? [] : [`${SOURCES_FILE}: is not current; run npm run generate`]
}
