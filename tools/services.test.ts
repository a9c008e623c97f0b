import { describe, expect, test, vi } from 'vitest'
import { findService, installAll } from './services.mjs'

/** A stub of apt-get that knows all packages but these, and installs all requested ones or none. */
function aptGetWithout(...unknown: readonly string[]) {
  const installed: string[] = []
  const install = vi.fn((packages: readonly string[]) => {
    const missing = packages.filter((name) => unknown.includes(name))
    if (missing.length > 0) throw new Error(`Unable to locate package ${missing.join(', ')}`)
    installed.push(...packages)
  })
  return { install, installed }
}

describe('packages for the tests', () => {
  test('are installed together', () => {
    const { install, installed } = aptGetWithout()
    expect(installAll(['curl', 'openssl'], install)).toEqual([])
    expect(installed).toEqual(['curl', 'openssl'])
    expect(install).toHaveBeenCalledTimes(1)
  })

  test('are installed even if another one is unknown', () => {
    const { install, installed } = aptGetWithout('caddy')
    expect(installAll(['nginx-light', 'caddy', 'curl'], install)).toEqual([
      'Could not install caddy: Error: Unable to locate package caddy',
    ])
    expect(installed).toEqual(['nginx-light', 'curl'])
  })

  test('are tried only once if there is a single one', () => {
    const { install } = aptGetWithout('caddy')
    expect(installAll(['caddy'], install)).toHaveLength(1)
    expect(install).toHaveBeenCalledTimes(1)
  })
})

test('a missing service is reported with its package', () => {
  vi.stubEnv('PATH', '/nonexistent')
  try {
    expect(() => findService('curl')).toThrow(
      'curl: found none on the PATH. Install it, on Debian: apt-get install --no-install-recommends curl',
    )
  } finally {
    vi.unstubAllEnvs()
  }
})
