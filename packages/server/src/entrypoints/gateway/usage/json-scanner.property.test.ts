import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { propertyRuns } from '../../../../../../tools/property-runs.js'
import { compilePaths, type JsonReceiver, JsonScanner, type WantedValue } from './json-scanner.js'

const RUNS = propertyRuns(2000)

/** Few names, so that most documents have values on wanted paths. */
const name = fc.constantFrom('a', 'b', 'c"\\', 'é')
const leaf = fc.oneof(
  fc.integer(),
  fc.double({ noDefaultInfinity: true, noNaN: true }),
  fc.boolean(),
  fc.constant(null),
  fc.string({ unit: 'grapheme', maxLength: 20 }),
)
const { document } = fc.letrec<{ document: unknown }>((tie) => ({
  document: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    leaf,
    fc.array(tie('document'), { maxLength: 4 }),
    fc.dictionary(name, tie('document'), { maxKeys: 4 }),
  ),
}))
const path = fc.array(fc.oneof(name, fc.constant('*')), { minLength: 1, maxLength: 3 })
const kind = fc.constantFrom('number', 'text', 'flag')
const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 8 })

const TYPES = { number: 'number', text: 'string', flag: 'boolean' } as const

/** The values that JSON.parse finds at a path, in the order of the text. */
function valuesAt(value: unknown, steps: readonly string[]): readonly unknown[] {
  const [step, ...rest] = steps
  if (step === undefined) return [value]
  if (Array.isArray(value)) return step === '*' ? value.flatMap((item) => valuesAt(item, rest)) : []
  if (typeof value !== 'object' || value === null || step === '*') return []
  return Object.hasOwn(value, step) ? valuesAt(Reflect.get(value, step), rest) : []
}

function scan(
  text: string,
  wanted: Readonly<Record<string, WantedValue>>,
  shares: readonly number[],
) {
  const found: unknown[] = []
  const receiver: JsonReceiver = {
    onValue: (_name, value) => found.push(value),
    onLength: () => {},
    onEnd: () => {},
  }
  const scanner = new JsonScanner(compilePaths(wanted), receiver)
  const bytes = Buffer.from(text)
  const places = shares.map((share) => Math.floor(share * bytes.length)).toSorted((a, b) => a - b)
  let from = 0
  for (const place of [...places, bytes.length]) {
    scanner.push(bytes, from, place)
    from = place
  }
  return { found, isComplete: scanner.isComplete }
}

describe('the JSON scanner', () => {
  test('finds the same values as JSON.parse, however the text is written and split', () => {
    fc.assert(
      fc.property(
        document,
        path,
        kind,
        fc.nat({ max: 3 }),
        cuts,
        (value, steps, wanted, indent, shares) => {
          const text = JSON.stringify(value, undefined, indent)
          const values = valuesAt(JSON.parse(text), steps)
          const expected = values.filter((each) => typeof each === TYPES[wanted])
          const { found, isComplete } = scan(
            text,
            { [steps.join('.')]: { kind: wanted, name: 'x' } },
            shares,
          )
          expect(found).toEqual(expected)
          const isContainer = typeof value === 'object' && value !== null
          if (isContainer) expect(isComplete).toBe(true)
        },
      ),
      { numRuns: RUNS },
    )
  })
})
