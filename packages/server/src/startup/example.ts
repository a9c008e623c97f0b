/** The example that runs if nothing is configured: rules and keys to try Sluice with. */
import { createHash } from 'node:crypto'
import type { Config, KnownKey } from '../config/config.js'
import { isLoopback } from '../lib/loopback.js'

/**
 * Whether nothing is configured, so that the example runs. A configuration file, rules, a database,
 * an upstream or a listener beyond loopback is a deployment, on whose calls no limits may be
 * enforced that its operator did not choose.
 */
export function isUnconfigured({
  file,
  rules,
  database,
  gateway,
  api,
  envoy,
  admin,
}: Pick<Config, 'file' | 'rules' | 'database' | 'gateway' | 'api' | 'envoy' | 'admin'>): boolean {
  const listeners = [gateway.listen, api.listen, envoy.listen, admin.listen]
  return (
    file === undefined &&
    rules === undefined &&
    database === undefined &&
    envoy.config === undefined &&
    envoy.xds === undefined &&
    gateway.upstreams.length === 0 &&
    listeners.every(({ host }) => isLoopback(host))
  )
}

interface ExampleKey {
  readonly key: string
  readonly user: string
  readonly plan: string
}

/** Printed at startup, so not secret: they are accepted only if `isUnconfigured`. */
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
