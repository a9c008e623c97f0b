import { describe, expect, test } from 'vitest'
import { createLimiter, type LimiterOptions, memoryStore, SluiceError } from './index.js'
import { perUser, user } from './limiter.test-helper.js'
import { redisStore } from './redis/index.js'

/** Values that a program without types may pass. */
const untyped = <Wanted>(value: unknown) => value as Wanted

const invalid = (message: RegExp) =>
  expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringMatching(message) })

function failureOf(run: () => unknown): unknown {
  try {
    run()
  } catch (error) {
    return error
  }
  return undefined
}

describe('createLimiter', () => {
  test.each([undefined, null, 'rules', 7])('refuses %j in place of its options', (options) => {
    const error = failureOf(() => createLimiter(untyped(options)))
    expect(error).toBeInstanceOf(SluiceError)
    expect(error).toEqual(invalid(/^options: found \w+; accepted: \{ rules, /))
  })

  test('refuses a list in place of its options, which would be a limiter without rules', () => {
    const error = failureOf(() => createLimiter(untyped(perUser(['10/second']))))
    expect(error).toEqual(invalid(/^options: found a list; accepted: \{ rules, /))
  })

  test('refuses rules that are null, and decides nothing while they are undefined', () => {
    const error = failureOf(() => createLimiter({ rules: untyped(null) }))
    expect(error).toEqual(invalid(/^rules: found null; accepted: YAML or JSON text, .*undefined/))
    const limiter = createLimiter({ rules: undefined })
    expect(failureOf(() => limiter.checkSync(user('u1')))).toMatchObject({ code: 'RULES_ABSENT' })
  })

  test.each(['store', 'clock', 'secret', 'ipv6Prefix', 'localCounters', 'scheduler', 'file'])(
    'refuses a %s that is null instead of taking its default',
    (option) => {
      const options = { rules: [], [option]: null } as unknown as LimiterOptions
      expect(failureOf(() => createLimiter(options))).toEqual(
        invalid(
          new RegExp(`^${option}: found null; accepted: a value; undefined for the default$`),
        ),
      )
    },
  )
})

describe('the verbs of a limiter', () => {
  const limiter = createLimiter({ rules: perUser(['10/second']) })

  test.each([null, 5, true, 'receipt'])('refuse %j in place of options', async (options) => {
    const wanted = invalid(/^options: found \w+; accepted: \{ receipt, canWait, gate, inFlight \}$/)
    await expect(limiter.check(user('u1'), untyped(options))).rejects.toEqual(wanted)
    expect(failureOf(() => limiter.checkSync(user('u1'), untyped(options)))).toEqual(wanted)
    expect(failureOf(() => limiter.decide(user('u1'), untyped(options)))).toEqual(wanted)
    await expect(limiter.reset(user('u1'), untyped(options))).rejects.toEqual(
      invalid(/^options: found \w+; accepted: \{ rule \}$/),
    )
    expect(failureOf(() => limiter.setRules([], untyped(options)))).toEqual(
      invalid(/^options: found \w+; accepted: \{ file \}$/),
    )
    // Nothing was spent, and the rules stay.
    expect(await limiter.peek(user('u1'))).toMatchObject({ rule: 'per-user', remaining: 10 })
  })

  test.each([null, undefined, 'u1', { attributes: null }])('refuse %j as a call', async (call) => {
    const wanted = expect.objectContaining({ code: 'CALL_INVALID' })
    for (const verb of ['check', 'peek', 'explain', 'limits', 'reset'] as const) {
      await expect(limiter[verb](untyped(call)), verb).rejects.toEqual(wanted)
    }
    if (typeof call !== 'string')
      await expect(limiter.refund(untyped(call))).rejects.toEqual(wanted)
    await expect(limiter.inspect('per-user', untyped(call))).rejects.toEqual(wanted)
    expect(failureOf(() => limiter.callers(untyped(call)))).toEqual(wanted)
  })

  test('refuse rules that are null with a RulesError, and keep the active ones', () => {
    for (const rules of [null, undefined]) {
      expect(failureOf(() => limiter.setRules(untyped(rules)))).toMatchObject({
        code: 'RULES_INVALID',
      })
    }
  })
})

describe('stores', () => {
  test('refuse null in place of their options', () => {
    expect(failureOf(() => memoryStore(untyped(null)))).toEqual(
      invalid(/^options: found null; accepted: \{ maxCounters, clock \}$/),
    )
    for (const options of [null, undefined, 'redis://localhost']) {
      expect(failureOf(() => redisStore(untyped(options)))).toEqual(
        invalid(/^options: found \w+; accepted: \{ url \}$/),
      )
    }
    expect(failureOf(() => redisStore(untyped({})))).toEqual(invalid(/^url: /))
  })
})
