/** Checks the docs against the code: tables are complete, examples run, links resolve. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ERROR_CODES, parseRules } from '../packages/core/src/index.js'
import { PROBLEMS } from '../packages/core/src/rules/diagnostics.js'
import { WARNING_CODES } from '../packages/limiter/src/middleware/warning-log.js'
import { VARIABLES } from '../packages/server/src/config/environment.js'
import { parseConfig } from '../packages/server/src/config/parse-config.js'
import { freePort } from '../tools/ports.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const RUN_MS_MAX = 120_000

const readDoc = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

/** Every markdown file below a folder, by its path from the root. */
function findDocs(folder: string): readonly string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isFile()) return entry.name.endsWith('.md') ? [path] : []
    const isOurs = !entry.name.startsWith('.') && !['node_modules', 'dist'].includes(entry.name)
    return entry.isDirectory() && isOurs ? findDocs(path) : []
  })
}

interface Block {
  /** `file:line`, for test names and editors. */
  readonly place: string
  /** The text after the fence: `js`, `yaml bad`. */
  readonly info: string
  readonly text: string
  /** The expected output: the next block, if that is `text`. */
  readonly output: string | undefined
}

const FENCED = /^( *)(`{3,})([^\n`]*)\n((?:.*\n)*?)\1\2 *$/gm

function blocksOf(path: string): readonly Block[] {
  const doc = readDoc(path)
  const blocks = [...doc.matchAll(FENCED)].map((match) => {
    const [, indent = '', , info = '', text = ''] = match
    const line = doc.slice(0, match.index).split('\n').length
    return {
      place: `${path}:${line}`,
      info: info.trim(),
      text: text.replaceAll(new RegExp(`^ {0,${indent.length}}`, 'gm'), ''),
    }
  })
  return blocks.map((block, index) => {
    const next = blocks[index + 1]
    return { ...block, output: next?.info === 'text' ? next.text : undefined }
  })
}

/** The text between a heading and the next one of the same or a higher level. */
function sectionOf(doc: string, heading: string): string {
  const [, rest = ''] = doc.split(`\n## ${heading}\n`)
  return rest.split('\n## ')[0] ?? ''
}

const allDocs = findDocs('.')
const packageReadmes = allDocs.filter((path) => /^packages\/[^/]+\/README\.md$/.test(path))
const blocks = ['README.md', ...packageReadmes, ...findDocs('docs')].flatMap(blocksOf)
const blocksWith = (info: string): (readonly [string, Block])[] =>
  blocks.flatMap((block) => (block.info === info ? [[block.place, block] as const] : []))
const codesOf = (table: object) => Object.keys(table).sort()

describe('docs/reference/errors.md', () => {
  const doc = readDoc('docs/reference/errors.md')
  const sections = [...doc.matchAll(/^## (.+)$/gm)].map(([, code = '']) => code)

  test('every error code has a section, and no section lacks a code', () => {
    expect(sections.toSorted()).toEqual(codesOf(ERROR_CODES))
  })

  test.each(Object.entries(ERROR_CODES))(
    'the section of %s states its status',
    (code, { status }) => {
      expect(sectionOf(doc, code)).toContain(`\nStatus ${status}.`)
    },
  )
})

describe('docs/reference/rules.md', () => {
  test('every problem code has a line in the tables, and no line lacks a code', () => {
    const section = sectionOf(readDoc('docs/reference/rules.md'), 'Problems')
    const listed = [...section.matchAll(/^\| `([^`]+)` *\|/gm)].map(([, code = '']) => code)
    expect(listed.toSorted()).toEqual(codesOf(PROBLEMS))
  })
})

describe('docs/guides/middleware-warnings.md', () => {
  test('every warning of the middlewares has a section, and no section lacks a code', () => {
    const doc = readDoc('docs/guides/middleware-warnings.md')
    const sections = [...doc.matchAll(/^## (.+)$/gm)].map(([, code = '']) => code)
    expect(sections.toSorted()).toEqual(WARNING_CODES.toSorted())
  })
})

describe('rules in documentation', () => {
  const messagesOf = ({ text }: Block) =>
    parseRules(text, { file: 'rules.yaml' }).errors.map(({ message }) => `${message}\n`)

  test.each(blocksWith('yaml'))('are valid in %s', (_place, block) => {
    expect(messagesOf(block)).toEqual([])
  })

  test.each(blocksWith('yaml bad'))(
    'are invalid where marked so in %s, with the documented messages',
    (_place, block) => {
      const messages = messagesOf(block)
      expect(messages).not.toEqual([])
      if (block.output !== undefined) expect(messages.join('')).toBe(block.output)
    },
  )

  test('are written as yaml, or as yaml bad; configurations as yaml config', () => {
    const known = ['yaml', 'yaml bad', 'yaml config', 'yaml config bad']
    const infos = blocks.map(({ info }) => info).filter((info) => info.startsWith('yaml'))
    expect(infos.filter((info) => !known.includes(info))).toEqual([])
  })
})

describe('configurations in documentation', () => {
  /** What no file can hold. */
  const ENV = { SLUICE_KEY_SECRET: '00112233445566778899aabbccddeeff' }

  const messagesOf = ({ text }: Block) => {
    const readFile = (path: string) => `a-token-for-documents-${path.length}`
    const { errors } = parseConfig(text, { file: 'sluice.yaml', env: ENV, readFile })
    return errors.map(({ message }) => `${message}\n`)
  }

  test.each(blocksWith('yaml config'))('are valid in %s', (_place, block) => {
    expect(messagesOf(block)).toEqual([])
  })

  test.each(blocksWith('yaml config bad'))(
    'are invalid where marked so in %s, with the documented messages',
    (_place, block) => {
      const messages = messagesOf(block)
      expect(messages).not.toEqual([])
      if (block.output !== undefined) expect(messages.join('')).toBe(block.output)
    },
  )

  test('every variable has a line in the table, and no line lacks a variable', () => {
    const section = sectionOf(readDoc('docs/reference/configuration.md'), 'Variables')
    const listed = [...section.matchAll(/^\| `(SLUICE_\w+)` *\|/gm)].map(([, name = '']) => name)
    expect(listed).toEqual([...VARIABLES])
  })
})

describe('programs in documentation', () => {
  const run = promisify(execFile)
  let folder = ''

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-docs-'))
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'), 'junction')
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  test.each(blocksWith('js'))(
    'run in %s and print the documented output',
    async (_place, block) => {
      const file = join(folder, `${block.place.replaceAll(/[^\w-]/g, '-')}.mjs`)
      writeFileSync(file, block.text)
      const { stdout } = await run(process.execPath, [file], { cwd: folder, timeout: RUN_MS_MAX })
      if (block.output !== undefined) expect(stdout).toBe(block.output)
    },
  )
})

describe('TypeScript in documentation', () => {
  /** What examples assume: a name of the reader's program, and a package that is not installed. */
  const ASSUMED = `
    declare const userId: string
    declare module '@nestjs/graphql' {
      export const GqlExecutionContext: {
        create(context: unknown): { getContext(): any }
      }
    }
  `
  const compilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    experimentalDecorators: true,
    module: 'NodeNext',
    target: 'ES2022',
    types: ['node'],
  }
  let folder = ''

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-docs-'))
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'), 'junction')
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
    writeFileSync(join(folder, 'assumed.d.ts'), ASSUMED)
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  /** Compiles all programs at once; returns errors by the place of their block. */
  async function compile(programs: readonly (readonly [place: string, text: string])[]) {
    const files = programs.map((_, index) => `block-${index}.ts`)
    for (const [index, [, text]] of programs.entries()) {
      // Each is a module with names of its own, also if it imports and exports nothing.
      writeFileSync(join(folder, `block-${index}.ts`), `${text}\nexport {}\n`)
    }
    const config = { compilerOptions, files: ['assumed.d.ts', ...files] }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
    const args = ['-p', folder, '--pretty', 'false']
    const { stdout } = await promisify(execFile)(join(ROOT, 'node_modules/.bin/tsc'), args, {
      cwd: folder,
      timeout: RUN_MS_MAX,
    }).catch((error: unknown) => {
      const failure = error as { readonly code: unknown; readonly stdout: string }
      // A number is the exit code of a compiler that found errors; else it did not finish.
      if (typeof failure.code !== 'number') throw error
      return failure
    })
    return stdout
      .trim()
      .replaceAll(/^block-(\d+)\.ts\((\d+),/gm, (_, index: string, line: string) => {
        return `${programs[Number(index)]?.[0]} + ${line} (`
      })
  }

  test('compiles in strict mode, every block against the built packages', async () => {
    const programs = blocksWith('ts').map(([place, { text }]) => [place, text] as const)
    expect(programs.length).toBeGreaterThan(0)
    expect(await compile(programs)).toBe('')
  })

  test('is reported with its place where it does not compile', async () => {
    const wrong = "import { createLimiter } from '@sluice/limiter'\ncreateLimiter({ rules: 7 })"
    expect(await compile([['guide.md:1', wrong]])).toContain('guide.md:1 + 2 (')
  })
})

/** Servers of examples listen here; tests give them a free port instead. */
const DOCUMENTED_PORT = '3000'

describe('servers in documentation', () => {
  /** How long to retry may differ by a moment. */
  const withoutTimes = (text: string) => text.replaceAll(/after \d+ second/g, 'after … second')

  async function answerOf(port: number, target: string): Promise<string> {
    const response = await fetch(`http://127.0.0.1:${port}${target}`)
    const text = await response.text()
    const isProblem = response.headers.get('content-type') === 'application/problem+json'
    const shown = isProblem ? (JSON.parse(text) as { detail: string }).detail : text
    return `GET ${target} ${response.status} ${shown}`
  }

  /** The first call is repeated until the server listens. */
  async function answersOf(port: number, targets: readonly string[], hasEnded: () => boolean) {
    const answers: string[] = []
    while (answers.length < targets.length) {
      try {
        answers.push(await answerOf(port, targets[answers.length] ?? '/'))
      } catch (error) {
        if (answers.length > 0 || hasEnded()) throw error
        await sleep(20)
      }
    }
    return answers
  }

  test.each(blocksWith('js server'))(
    'run in %s and answer the documented calls',
    async (_place, block) => {
      const folder = mkdtempSync(join(tmpdir(), 'sluice-docs-'))
      symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'), 'junction')
      const port = await freePort()
      writeFileSync(
        join(folder, 'server.mjs'),
        block.text.replaceAll(DOCUMENTED_PORT, String(port)),
      )
      const server = spawn(process.execPath, ['server.mjs'], { cwd: folder, stdio: 'ignore' })
      const ended = once(server, 'exit')
      try {
        const lines = (block.output ?? '').trimEnd().split('\n')
        const targets = lines.map((line) => line.split(' ')[1] ?? '/')
        const answers = await answersOf(port, targets, () => server.exitCode !== null)
        expect(answers.map(withoutTimes)).toEqual(lines.map(withoutTimes))
      } finally {
        server.kill()
        await ended
        rmSync(folder, { recursive: true })
      }
    },
  )
})

describe('links in documentation', () => {
  /** The document without code: brackets in code are not links, and `#` is no heading. */
  const proseOf = (path: string) =>
    readDoc(path)
      .replaceAll(FENCED, '')
      .replaceAll(/`[^`\n]*`/g, '``')

  /** The anchors of a document's headings, as GitHub makes them. */
  function anchorsOf(path: string): ReadonlySet<string> {
    const anchors = new Set<string>()
    for (const [, heading = ''] of readDoc(path)
      .replaceAll(FENCED, '')
      .matchAll(/^#+ (.+)$/gm)) {
      const words = heading.toLowerCase().replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
      const anchor = words.trim().replaceAll(' ', '-')
      let twin = 0
      while (anchors.has(twin === 0 ? anchor : `${anchor}-${twin}`)) twin++
      anchors.add(twin === 0 ? anchor : `${anchor}-${twin}`)
    }
    return anchors
  }

  /** Why a link is broken; undefined if it resolves, or points out of the repository. */
  function findLinkProblem(from: string, link: string): string | undefined {
    if (/^[a-z][a-z0-9+.-]*:/i.test(link)) return undefined
    const [path = '', anchor = ''] = link.split('#')
    const target = path === '' ? join(ROOT, from) : resolve(ROOT, dirname(from), path)
    const name = relative(ROOT, target)
    if (name.startsWith('..') || !existsSync(target)) return `${link}: there is no such file`
    if (anchor === '' || statSync(target).isDirectory() || !name.endsWith('.md')) return undefined
    return anchorsOf(name).has(anchor) ? undefined : `${link}: ${name} has no such heading`
  }

  test.each(allDocs)('resolve in %s if they point into the repository', (from) => {
    const links = [...proseOf(from).matchAll(/\]\(<?([^\s)>]+)>?(?: "[^"]*")?\)/g)]
    const named = [...proseOf(from).matchAll(/^ *\[[^\]]+\]: +<?([^\s>]+)/gm)]
    const problems = [...links, ...named].map(([, link = '']) => findLinkProblem(from, link))
    expect(problems.filter((problem) => problem !== undefined)).toEqual([])
  })
})
