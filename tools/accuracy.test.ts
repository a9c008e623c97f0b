/** Compares the table of docs/guides/choosing.md with the output of its program. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const PROGRAM = fileURLToPath(new URL('../bench/accuracy/measure.mjs', import.meta.url))
const PAGE = fileURLToPath(new URL('../docs/guides/choosing.md', import.meta.url))

test('the accuracy figures in the guide are those that the benchmark prints', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM])
  const printed = stdout.trim().replace(/\n{3,}/g, '\n\n')
  expect(readFileSync(PAGE, 'utf8')).toContain(printed)
})
