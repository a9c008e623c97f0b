import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { PeriodicFile } from './periodic-file.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-kept-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function setUp<Content extends string | Uint8Array>(name: string, first: Content | undefined) {
  const file = join(folder, name, 'file')
  const outcomes: unknown[] = []
  const state = { content: first }
  const kept = new PeriodicFile<Content>({
    file,
    everyMs: 1_000_000,
    content: () => state.content,
    onDone: (failure) => outcomes.push(failure),
  })
  return { kept, file, outcomes, state }
}

test('the file is written whole, readable by its owner only, with no temporary file left', async () => {
  const { kept, file, outcomes } = setUp('whole', 'text')
  await kept.save()
  expect(readFileSync(file, 'utf8')).toBe('text')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(readdirSync(join(folder, 'whole'))).toEqual(['file'])
  expect(outcomes).toEqual([undefined])
})

test('unchanged content is not written again, as text or as bytes', async () => {
  for (const content of ['same', Buffer.from('same')]) {
    const { kept, file, state } = setUp(typeof content, content)
    await kept.save()
    writeFileSync(file, 'touched')
    state.content = typeof content === 'string' ? content : Buffer.from('same')
    await kept.save()
    expect(readFileSync(file, 'utf8')).toBe('touched')
    state.content = typeof content === 'string' ? 'new' : Buffer.from('new')
    await kept.close()
    expect(readFileSync(file, 'utf8')).toBe('new')
  }
})

test('content that the file already has, and no content, create no file', async () => {
  const known = setUp('known', 'text')
  known.kept.markSaved('text')
  await known.kept.save()
  expect(() => statSync(known.file)).toThrow('ENOENT')
  const empty = setUp<string>('empty', undefined)
  await empty.kept.close()
  expect(() => statSync(empty.file)).toThrow('ENOENT')
})

test('a folder that cannot be created is reported, and the next write tries again', async () => {
  writeFileSync(join(folder, 'blocked'), '')
  const { kept, outcomes } = setUp('blocked', 'text')
  await kept.save()
  expect(outcomes[0]).toBeInstanceOf(Error)
  rmSync(join(folder, 'blocked'))
  await kept.save()
  expect(outcomes[1]).toBeUndefined()
})

test('a caller during a write waits for it', async () => {
  const { kept, outcomes } = setUp('once', 'text')
  await Promise.all([kept.save(), kept.save(), kept.save()])
  expect(outcomes).toHaveLength(1)
})
