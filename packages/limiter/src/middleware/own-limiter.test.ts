import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openLimiter, type OwnedLimiter } from './own-limiter.js'

let folder: string
let file: string
let opened: OwnedLimiter | undefined
let logged: string[]
let onLogged: () => void

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-middleware-'))
  file = join(folder, 'rules.yaml')
  logged = []
  onLogged = () => {}
})

afterEach(async () => {
  await opened?.close()
  opened = undefined
  rmSync(folder, { recursive: true, force: true })
})

const ruleOf = (max: number) => `- { id: all, by: [], limits: [${max}/hour] }\n`

function open(rules: object | string): OwnedLimiter {
  const log = (message: string) => {
    logged.push(message)
    onLogged()
  }
  opened = openLimiter({ rules }, { warn: log, error: log }, () => {})
  return opened
}

const limitOf = async ({ limiter }: OwnedLimiter) => (await limiter.check({ attributes: {} })).limit

/** Waits for the watcher, which reports a change soon after it happened. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 10))
}

test('rules with shed and no load are a likely mistake', () => {
  const set = { priorities: ['reads'], rules: [], shed: { loop: '50ms' } }
  const codesOf = (rules: object, load?: () => number) => {
    const codes: string[] = []
    const log = () => {}
    const owned = openLimiter({ rules, load }, { warn: log, error: log }, (code) =>
      codes.push(code),
    )
    void owned.close()
    return codes
  }
  expect(codesOf(set)).toEqual(['shed-without-load'])
  expect(codesOf(set, () => 0)).toEqual([])
  expect(codesOf({ ...set, shed: { ...set.shed, mode: 'off' } })).toEqual([])
})

test('rules in a file are followed', async () => {
  writeFileSync(file, ruleOf(5))
  const owned = open({ file })
  expect(await limitOf(owned)).toBe(5)
  writeFileSync(file, ruleOf(7))
  await until(async () => (await limitOf(owned)) === 7)
})

test('a bad edit of the file is logged, and the last good rules stay', async () => {
  writeFileSync(file, ruleOf(5))
  const owned = open({ file })
  const isLogged = new Promise<void>((resolve) => {
    onLogged = resolve
  })
  writeFileSync(file, '- { id: all, by: [], limits: [many] }\n')
  await isLogged
  expect(logged[0]).toContain('sluice: rules not reloaded: 1 error in the rules')
  expect(logged[0]).toContain(`${file}:1:`)
  expect(await limitOf(owned)).toBe(5)
  writeFileSync(file, ruleOf(9))
  await until(async () => (await limitOf(owned)) === 9)
})

test('a file that cannot be read is an error that names it', () => {
  expect(() => open({ file })).toThrow(`rules.file: ${file}: there is no such file`)
  expect(() => open({ file: folder })).toThrow(`rules.file: ${folder}: found a directory`)
  expect(() => open({ file: 3 })).toThrow('rules.file: found number; accepted: a path')
})

test('a file is an error in a runtime without a file system', () => {
  const { process } = globalThis
  try {
    // @ts-expect-error as in a runtime that is not Node
    globalThis.process = undefined
    expect(() => open({ file })).toThrow(
      'file: found one in a runtime without a file system; accepted: rules as a list or as text',
    )
  } finally {
    globalThis.process = process
  }
})

test('rules as text and as a list decide alike', async () => {
  expect(await limitOf(open(ruleOf(4)))).toBe(4)
  await opened?.close()
  expect(await limitOf(open([{ id: 'all', by: [], limits: ['4/hour'] }]))).toBe(4)
})

test('warnings about rules are logged', () => {
  open('- { id: per-user, by: [user], limits: [4/hour] }')
  expect(logged[0]).toContain('sluice: rules: ')
})

test('a limiter that was given stays open', async () => {
  let isClosed = false
  const limiter = {
    check: () => Promise.reject(new Error('never called')),
    close: async () => {
      isClosed = true
    },
  }
  const given = openLimiter({ limiter }, console, () => {})
  await given.close()
  expect(given.limiter).toBe(limiter)
  expect(isClosed).toBe(false)
})
