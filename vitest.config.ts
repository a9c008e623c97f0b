import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: { conditions: ['source'] },
  ssr: { resolve: { conditions: ['source'] } },
  test: {
    include: ['packages/*/src/**/*.test.ts', 'tools/**/*.test.ts', 'docs/**/*.test.ts'],
    // Two cores: more workers than that only fight each other.
    maxWorkers: 2,
  },
})
