import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: { conditions: ['source'] },
  ssr: { resolve: { conditions: ['source'] } },
  test: {
    include: [
      'packages/*/src/**/*.test.ts',
      'packages/*/test/**/*.test.ts',
      'simulation/*.test.ts',
      'tools/**/*.test.ts',
      'e2e/**/*.test.ts',
    ],
    globalSetup: ['tools/build.setup.ts', 'tools/services.setup.ts'],
    // Two cores: more workers than that only fight each other.
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})
