/** How much a page has to load for the client, minified and compressed. */
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { expect, test } from 'vitest'

const PACED_FETCH_BYTES_MAX = 6 * 1024
const READER_BYTES_MAX = 2 * 1024

/** The bytes of a program that imports one name of this package, as a bundler leaves it. */
async function bundledBytes(name: string): Promise<number> {
  const { outputFiles } = await build({
    stdin: {
      contents: `export { ${name} } from './index.js'`,
      resolveDir: fileURLToPath(new URL('.', import.meta.url)),
    },
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    write: false,
  })
  return gzipSync(outputFiles[0]?.contents ?? '', { level: 9 }).byteLength
}

test('the paced fetch takes less than 6 KB', async () => {
  expect(await bundledBytes('createPacedFetch')).toBeLessThan(PACED_FETCH_BYTES_MAX)
})

test('the reader of rate limit headers alone takes less than 2 KB', async () => {
  expect(await bundledBytes('readRateLimit')).toBeLessThan(READER_BYTES_MAX)
})
