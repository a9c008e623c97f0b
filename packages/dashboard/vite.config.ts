import { defineConfig } from 'vite'
import { sourceAliases } from '../../tools/source-paths.mjs'

export default defineConfig({
  root: import.meta.dirname,
  base: '/',
  // Uses the sources of @sluice/client, so that no build is needed first.
  resolve: { alias: sourceAliases() },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: 'dist/page',
    emptyOutDir: true,
    target: 'es2022',
    // Separate files are cached, unlike data URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
})
