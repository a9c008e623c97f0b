import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { readEnvironment, VARIABLES } from './environment.js'

const warningsOf = (...names: readonly string[]) => {
  const env = Object.fromEntries(names.map((name) => [name, 'secret-0123456789']))
  return readEnvironment(env).finish().warnings
}

describe('the secret of the key hash', () => {
  const secretOf = (value: string) =>
    readEnvironment({ SLUICE_KEY_SECRET: value }).overrides.keySecret?.value

  test('is 32 hex digits as they are', () => {
    expect(Buffer.from(secretOf('00ff00FF00ff00ff00ff00ff00ff00ff') ?? []).toString('hex')).toBe(
      '00ff00ff00ff00ff00ff00ff00ff00ff',
    )
  })

  test.each(['a text of 16 and more', '00ff00ff00ff00ff00ff00ff00ff00f', 'é'.repeat(16)])(
    'is the beginning of the SHA-256 of %j',
    (text) => {
      const hash = createHash('sha256').update(text).digest()
      expect(Buffer.from(secretOf(text) ?? []).equals(hash.subarray(0, 16))).toBe(true)
    },
  )

  test('is no text of 15 characters', () => {
    expect(secretOf('123456789012345')).toBeUndefined()
  })
})

describe('variables that are not ours', () => {
  test('are warned of with the nearest of ours, never with their value', () => {
    const [warning] = warningsOf('SLUICE_REDDIS_URL')
    expect(warning?.suggestion).toBe('SLUICE_REDIS_URL')
    expect(warning?.message).toContain('did you mean "SLUICE_REDIS_URL"?')
    expect(JSON.stringify(warning)).not.toContain('secret')
  })

  test('are no matter if they have another beginning', () => {
    expect(warningsOf('PATH', 'SLUICER', 'MY_SLUICE_RULES')).toEqual([])
  })

  test.each([
    'SLUICE_SERVICE_HOST',
    'SLUICE_SERVICE_PORT',
    'SLUICE_SERVICE_PORT_HTTP',
    'SLUICE_PORT',
    'SLUICE_PORT_8080_TCP',
    'SLUICE_PORT_8080_TCP_ADDR',
    'SLUICE_GATEWAY_PORT_8080_TCP_PROTO',
  ])('are no matter if Kubernetes set them: %s', (name) => {
    expect(warningsOf(name)).toEqual([])
  })

  test('are told of a hundred times at most, each on one line', () => {
    const names = Array.from({ length: 200 }, (_, index) => `SLUICE_X\n${index}`)
    const warnings = warningsOf(...names)
    expect(warnings).toHaveLength(100)
    for (const { message } of warnings) expect(message).not.toContain('\n')
  })
})

test('our own are no surprise', () => {
  expect(warningsOf(...VARIABLES)).toEqual([])
})

test('values that nothing acts on yet are accepted if they are good', () => {
  const env = {
    SLUICE_CONFIG: 'sluice.yaml',
    SLUICE_GRPC_LISTEN: '127.0.0.1:8082',
  }
  expect(readEnvironment(env).finish()).toEqual({ errors: [], warnings: [] })
})
