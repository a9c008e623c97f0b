/**
 * `npm run layout`: fails if the tree violates the layout of ARCHITECTURE.md. Each message states
 * what to do instead.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { execFileSync } from 'node:child_process'
import { join, posix } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  checkExports,
  checkPortable,
  checkSourcesFile,
  PORTABLE_ENTRY_POINTS,
} from './layout-packages.mjs'
import { SOURCES_FILE, sourcePaths, sourcesConfig } from './source-paths.mjs'

/**
 * What a package may import besides its own files; `type x`: only the types of x. Anything else is
 * refused.
 */
const ARROWS = {
  api: ['zod'],
  core: [],
  limiter: [
    '@nestjs/common',
    '@nestjs/core',
    '@nestjs/websockets',
    '@opentelemetry/api',
    '@redis/client',
    '@sluice/core',
    'ioredis',
    'iovalkey',
    'node:assert/strict',
    'node:perf_hooks',
    'node:crypto',
    'node:fs',
    'node:http',
    'node:net',
    'node:tls',
    'type hono',
    'type fastify',
    'type node:fs',
    'type node:fs/promises',
    'type node:path',
    'rate-limiter-flexible',
    'type node:stream',
  ],
  server: [
    '@grpc/grpc-js',
    '@hono/node-server',
    '@opentelemetry/api',
    '@sluice/api',
    '@sluice/api/node-snapshots',
    '@sluice/core',
    '@sluice/core/config-reader',
    '@sluice/core/text',
    '@sluice/dashboard',
    '@sluice/http2-unary',
    '@sluice/limiter',
    '@sluice/limiter/internal',
    '@sluice/limiter/node',
    '@sluice/limiter/otel',
    '@sluice/limiter/redis',
    '@sluice/limiter/ring',
    'jose',
    'node:cluster',
    'node:crypto',
    'node:diagnostics_channel',
    'node:dns',
    'node:fs',
    'node:fs/promises',
    'node:http',
    'node:http2',
    'node:https',
    'node:net',
    'node:os',
    'node:path',
    'node:process',
    'node:stream',
    'node:stream/promises',
    'node:timers/promises',
    'node:tls',
    'node:url',
    'node:v8',
    'node:worker_threads',
    'node:zlib',
    'pg',
    'pino',
    'undici',
    'zod',
  ],
  client: ['type @sluice/api'],
  'http2-unary': ['node:net', 'node:perf_hooks', 'node:tls'],
  cli: [
    '@sluice/client',
    '@sluice/core',
    '@sluice/core/text',
    '@sluice/server',
    '@sluice/server/envoy-config',
    '@sluice/server/find-admin',
    'commander',
    'node:fs',
    'node:process',
    'node:readline/promises',
    'node:util',
  ],
  dashboard: [
    '@preact/signals',
    '@sluice/client',
    '@sluice/core/text',
    'preact',
    'preact/hooks',
    'uplot',
    'uplot/dist/uPlot.min.css',
  ],
  simulation: ['@sluice/core', '@sluice/limiter', '@sluice/limiter/internal', 'node:util'],
}

/** The files that may read the environment. */
const ENVIRONMENT_FILES = [
  'packages/server/src/main.ts',
  'packages/server/src/find-admin.ts',
  // PM2 says only there that a process is one of several.
  'packages/limiter/src/middleware/workers.ts',
]

/** The only file of core that may import a package, and that package. */
const YAML_FILE = 'packages/core/src/rules/document.ts'

/** The file that lists every algorithm. */
const REGISTRY_FILE = 'packages/core/src/algorithms/index.ts'

const FILE_LINES_MAX = 600
const FUNCTION_LINES_MAX = 70
const LINE_LENGTH_MAX = 100
const README_LINES_MAX = 150

const isTest = (path) => /\.test(-helper)?\.tsx?$/.test(path)
/** The part of the tree that a file belongs to, if that has its own import rules. */
const packageOf = (path) =>
  path.startsWith('simulation/') ? 'simulation' : /^packages\/([^/]+)\/src\//.exec(path)?.[1]

/** The code without comments and strings: a word in a comment reads no clock. */
export function codeOf(text) {
  return text
    .replace(/\/\*[\s\S]*?\*\//g, (comment) => comment.replace(/[^\n]/g, ' '))
    .replace(/(^|\s)\/\/.*$/gm, '$1')
    .replace(/'(?:[^'\\\n]|\\.)*'/g, "''")
}

function lineOf(text, index) {
  return text.slice(0, index).split('\n').length
}

/** Whether the import or export that ends at this index is type-only. */
function isTypeImport(text, index) {
  const start = Math.max(text.lastIndexOf('import', index), text.lastIndexOf('export', index))
  return /^\w+ type [{*]/.test(text.slice(start))
}

/** @param {string} path @param {string} text @returns {string[]} */
export function checkImports(path, text) {
  const home = packageOf(path)
  if (home === undefined || isTest(path)) return []
  const problems = []
  for (const match of text.matchAll(/\b(?:from\s*|import\s*\(?\s*)'([^']+)'/g)) {
    const from = match[1] ?? ''
    const place = `${path}:${lineOf(text, match.index)}`
    if (from.startsWith('.')) {
      const target = posix.join(posix.dirname(path), from)
      if (packageOf(target) === home) continue
      problems.push(`${place}: ${home} reaches into ${target}; import the package by its name`)
    } else if (home === 'core' && from === 'yaml' && path === YAML_FILE) {
      continue
    } else if (isTypeImport(text, match.index) && ARROWS[home]?.includes(`type ${from}`)) {
      continue
    } else if (!ARROWS[home]?.includes(from)) {
      const allowed = ARROWS[home]?.join(', ') || `nothing but yaml, in ${YAML_FILE}`
      problems.push(`${place}: ${home} imports ${from}; it may import ${allowed}`)
    }
  }
  return problems
}

const IMPURE = [
  [/\bDate\.now\b|\bnew Date\(\)|\bDate\(\)/, 'reads a clock; take the time as an argument'],
  [/\bperformance\b/, 'reads a clock; take the time as an argument'],
  [/\bMath\.random\b/, 'draws at random; take the number as an argument'],
  [/\bcrypto\b/, 'draws at random; take the bytes as an argument'],
  [/\bprocess\b/, 'reads the environment; take the value as an argument'],
  [/\b(setTimeout|setInterval|setImmediate|queueMicrotask)\b/, 'sets a timer; only callers wait'],
  [/\b(async|await|Promise)\b/, 'is asynchronous; core only computes'],
  [/\bconsole\b/, 'logs; return what there is to say'],
]

/**
 * Clock, random, environment and waiting inside core; clocks and environment outside their files
 * elsewhere.
 */
export function checkPurity(path, text) {
  const home = packageOf(path)
  if (home === undefined || isTest(path)) return []
  const code = codeOf(text)
  const rules =
    home === 'core'
      ? IMPURE
      : [
          ...(path.endsWith('clock.ts')
            ? []
            : [
                [
                  /\bDate\.now\b|\bnew Date\(\)|\bperformance\.now\b/,
                  'reads a clock; ask clock.ts',
                ],
              ]),
          ...(ENVIRONMENT_FILES.includes(path)
            ? []
            : [
                [
                  /\bprocess\.env\b/,
                  `reads the environment; only ${ENVIRONMENT_FILES.join(', ')} do`,
                ],
              ]),
        ]
  return code
    .split('\n')
    .flatMap((line, index) =>
      rules.flatMap(([pattern, what]) =>
        pattern.test(line) ? [`${path}:${index + 1}: ${what}: ${line.trim()}`] : [],
      ),
    )
}

/** Files, functions and comment lines that are too long. */
export function checkSize(path, text) {
  const lines = text.replace(/\n$/, '').split('\n')
  const problems = []
  if (lines.length > FILE_LINES_MAX) {
    problems.push(`${path}: ${lines.length} lines; split it by subject, ${FILE_LINES_MAX} at most`)
  }
  lines.forEach((line, index) => {
    // The formatter wraps code, except long strings; it does not wrap comments.
    if (line.length > LINE_LENGTH_MAX && /^\s*(\/\/|\/?\*)/.test(line)) {
      problems.push(
        `${path}:${index + 1}: ${line.length} columns; wrap the comment at ${LINE_LENGTH_MAX}`,
      )
    }
  })
  if (isTest(path)) return problems
  return [...problems, ...checkFunctions(path, lines)]
}

const FUNCTION_START =
  /^( *)(?:export )?(?:private |static |async )*(?:function\b|(?!if|for|while|switch|catch)#?\w+(?:<\w+>)?\([^)]*\)?.*\{$|constructor\()/

function checkFunctions(path, lines) {
  return lines.flatMap((line, index) => {
    const indent = FUNCTION_START.exec(line)?.[1]
    if (indent === undefined || line.trimEnd().endsWith('}')) return []
    const length = lines.slice(index).findIndex((later) => later.startsWith(`${indent}}`)) + 1
    if (length <= FUNCTION_LINES_MAX) return []
    return `${path}:${index + 1}: a function of ${length} lines; split it, ${FUNCTION_LINES_MAX} at most`
  })
}

export function checkWords(path, text) {
  const found = /\b(TODO|FIXME|XXX|HACK)\b/.exec(text)
  if (found === null || path === 'tools/layout.mjs') return []
  return [`${path}:${lineOf(text, found.index)}: ${found[1]}; finish it, or open an issue`]
}

/** Every algorithm has its truth table, and every table an algorithm. */
export function checkTables(registrySource, exists) {
  const entries = /algorithms = \{([^}]*)\}/.exec(registrySource)?.[1] ?? ''
  const names = [...entries.matchAll(/^ *'?([a-z-]+)'?[:,]/gm)].map((match) => match[1])
  if (names.length === 0) return [`${REGISTRY_FILE}: no algorithms found`]
  return names
    .filter((name) => !exists(`conformance/${name}.json`))
    .map((name) => `${name} has no truth table; write conformance/${name}.json`)
}

/**
 * The sources below a folder, as git knows them. An unpacked archive is no work tree, or an ignored
 * part of another one; its folders are walked.
 *
 * @param {string} folder @param {string} [git] @returns {string[]}
 */
export function listFiles(folder, git = 'git') {
  const isSource = (file) => /\.(tsx?|mjs|lua)$/.test(file)
  const listed = listByGit(folder, git).filter(isSource)
  if (listed.length === 0) return walk(folder, '').filter(isSource)
  return listed.filter((file) => existsSync(join(folder, file)))
}

function listByGit(folder, git) {
  try {
    const args = ['ls-files', '-co', '--exclude-standard']
    const stdio = ['ignore', 'pipe', 'ignore']
    return execFileSync(git, args, { cwd: folder, encoding: 'utf8', stdio }).split('\n')
  } catch {
    return []
  }
}

/** Generated and installed files. */
const SKIPPED_FOLDERS = new Set(['node_modules', 'dist', 'coverage', '.git', '.sluice'])

function walk(folder, prefix) {
  return readdirSync(join(folder, prefix), { withFileTypes: true }).flatMap((entry) => {
    const path = posix.join(prefix, entry.name)
    if (entry.isDirectory()) return SKIPPED_FOLDERS.has(entry.name) ? [] : walk(folder, path)
    return entry.isFile() ? [path] : []
  })
}

function checkPackages() {
  const sources = new Map(sourcePaths())
  const read = (path) => readFileSync(path, 'utf8')
  const manifests = readdirSync('packages').map((name) => `packages/${name}/package.json`)
  return [
    ...manifests.flatMap((path) => checkExports(path, JSON.parse(read(path)))),
    ...checkSourcesFile(read(SOURCES_FILE), sourcesConfig()),
    ...checkPortable(PORTABLE_ENTRY_POINTS, sources, read, codeOf),
  ]
}

function main() {
  const files = listFiles('.')
  const problems = files.flatMap((path) => {
    const text = readFileSync(path, 'utf8')
    return [checkImports, checkPurity, checkSize, checkWords].flatMap((check) => check(path, text))
  })
  problems.push(...checkTables(readFileSync(REGISTRY_FILE, 'utf8'), existsSync))
  problems.push(...checkPackages())
  const readme = readFileSync('README.md', 'utf8').split('\n').length - 1
  if (readme > README_LINES_MAX)
    problems.push(`README.md: ${readme} lines; ${README_LINES_MAX} at most`)
  for (const problem of problems) console.error(problem)
  console.log(`layout: ${files.length} files, ${problems.length} problems`)
  process.exitCode = problems.length === 0 ? 0 : 1
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) main()
