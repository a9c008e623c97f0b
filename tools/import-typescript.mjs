/**
 * Imports a TypeScript module of `tools/` from plain JavaScript: benchmarks and the demo run
 * without a build of it. It is bundled in memory with the files that it imports.
 */
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

/** @param {URL} file of the module, whose exports it resolves with */
export async function importTypeScript(file) {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(file)],
    bundle: true,
    platform: 'node',
    format: 'esm',
    write: false,
    logLevel: 'silent',
  })
  const [{ contents }] = outputFiles
  return import(`data:text/javascript;base64,${Buffer.from(contents).toString('base64')}`)
}
