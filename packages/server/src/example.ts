/** What runs where nothing was configured: rules, keys and an upstream to try Sluice on. */
import { createHash } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import type { KnownKey } from './config/config.js'

/** Beside `src` and `dist`, so that both find it. */
export const exampleRulesFile = fileURLToPath(new URL('../example/rules.yaml', import.meta.url))

interface ExampleKey {
  readonly key: string
  readonly user: string
  readonly plan: string
}

/**
 * Printed at the start, and so no secrets: they are known only where neither configuration, rules
 * nor upstream is given.
 */
export const EXAMPLE_KEYS: readonly ExampleKey[] = [
  { key: 'demo-key-of-ann-free', user: 'ann', plan: 'free' },
  { key: 'demo-key-of-acme-pro', user: 'acme', plan: 'pro' },
]

export const exampleKeys: readonly KnownKey[] = EXAMPLE_KEYS.map(({ key, user, plan }) => ({
  sha256: createHash('sha256').update(key).digest('hex'),
  user,
  plan,
  state: 'active',
}))
