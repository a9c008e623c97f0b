import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { readEnvironment, VARIABLES } from './environment.js'

const warningsOf = (...names: readonly string[]) => {
  const env = Object.fromEntries(names.map((name) => [name, 'secret-0123456789']))
  return readEnvironment(env).finish().warnings
}

describe('the key hash secret', () => {
  const secretOf = (value: string) =>
    readEnvironment({ SLUICE_KEY_SECRET: value }).overrides.keySecret?.value

  test('is taken unchanged if it is 32 hex digits', () => {
    expect(Buffer.from(secretOf('00ff00FF00ff00ff00ff00ff00ff00ff') ?? []).toString('hex')).toBe(
      '00ff00ff00ff00ff00ff00ff00ff00ff',
    )
  })

  test.each(['a text of 16 and more', '00ff00ff00ff00ff00ff00ff00ff00f', 'é'.repeat(16)])(
    'is the beginning of the SHA-256 of other text: %j',
    (text) => {
      const hash = createHash('sha256').update(text).digest()
      expect(Buffer.from(secretOf(text) ?? []).equals(hash.subarray(0, 16))).toBe(true)
    },
  )

  test('cannot be a text of 15 characters', () => {
    expect(secretOf('123456789012345')).toBeUndefined()
  })
})

describe('unknown variables', () => {
  test('are warned of with the nearest known name, never with their value', () => {
    const [warning] = warningsOf('SLUICE_REDDIS_URL')
    expect(warning?.suggestion).toBe('SLUICE_REDIS_URL')
    expect(warning?.message).toContain('did you mean "SLUICE_REDIS_URL"?')
    expect(JSON.stringify(warning)).not.toContain('secret')
  })

  test('are ignored if they have another prefix', () => {
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
  ])('are ignored if Kubernetes set them: %s', (name) => {
    expect(warningsOf(name)).toEqual([])
  })

  test('are warned of at most a hundred times, each on one line', () => {
    const names = Array.from({ length: 200 }, (_, index) => `SLUICE_X\n${index}`)
    const warnings = warningsOf(...names)
    expect(warnings).toHaveLength(100)
    for (const { message } of warnings) expect(message).not.toContain('\n')
  })
})

test('known variables cause no warning', () => {
  expect(warningsOf(...VARIABLES)).toEqual([])
})
