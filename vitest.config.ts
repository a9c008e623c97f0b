import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: { conditions: ['source'] },
  ssr: { resolve: { conditions: ['source'] } },
  test: {
    include: ['packages/*/src/**/*.test.ts', 'tools/**/*.test.ts'],
    globalSetup: ['tools/build.setup.ts'],
    // Two cores: more workers than that only fight each other.
    maxWorkers: 2,
    testTimeout: 60_000,
  },
})
