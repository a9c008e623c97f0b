import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { readAll } from './decision-log.test-helper.js'

const HEAD = '#sluice-decisions 1 1000 sample=0.1\n'
const LINE = '5\t0\t00000000000000ff\t1\ta\ts\n'
const read = (...pieces: readonly string[]) => readAll(Readable.from(pieces))

test('lines are read however the text is split into pieces', async () => {
  const text = `${HEAD}=0 a\n${LINE}${LINE}`
  const whole = await read(text)
  expect(whole).toEqual([
    {
      atMs: 1005,
      rule: 'a',
      caller: '00000000000000ff',
      cost: 1,
      outcome: 'allowed',
      source: 'store',
      sample: 0.1,
    },
    expect.objectContaining({ atMs: 1010 }),
  ])
  expect(await read(...text.split(''))).toEqual(whole)
  expect(await read()).toEqual([])
})

test('the lines before a truncated last line are read', async () => {
  const text = `${HEAD}=0 a\n${LINE}${HEAD}=0 a\n${LINE}`
  for (let length = 1; length < text.length; length++) {
    const count = (await read(text.slice(0, length))).length
    // The last line lacks nothing but its end, so it counts.
    const isWhole = (upTo: string) => length >= upTo.length - 1
    const expected = isWhole(text) ? 2 : isWhole(`${HEAD}=0 a\n${LINE}`) ? 1 : 0
    expect(count).toBe(expected)
    // The same if a later process continued after it.
    const after = await read(`${text.slice(0, length)}\n`.replace(/\n\n$/, '\n'), `${HEAD}=0 a\n`)
    expect(after).toHaveLength(expected)
  }
})

test.each([
  [
    'another version',
    `${HEAD}#sluice-decisions 2 1000 sample=0.1\n`,
    'decisions:2: found #sluice-decisions 2 1000 sample=0.1; accepted: #sluice-decisions 1 <start in ms> sample=<share>',
  ],
  [
    'no decision log',
    '{"rules":[]}\n',
    'decisions:1: found {"rules":[]}; accepted: #sluice-decisions 1 <start in ms> sample=<share>',
  ],
  [
    'a share that is none',
    `#sluice-decisions 1 1000 sample=2\n${LINE}`,
    'decisions:1: found #sluice-decisions 1 1000 sample=2; accepted',
  ],
  ['a rule without a name', `${HEAD}${LINE}${LINE}`, 'decisions:2: found 5'],
  ['a letter that means nothing', `${HEAD}=0 a\n${LINE.replace('a\ts', 'x\ts')}${LINE}`, ':3: '],
  ['a cost that is no number', `${HEAD}=0 a\n${LINE.replace('\t1\t', '\t1e3\t')}${LINE}`, ':3: '],
  ['a name that is none', `${HEAD}=x a\n${LINE}`, ':2: found =x a; accepted: =<number> <rule>'],
  ['a line without an end', `${HEAD}${'x'.repeat(5000)}${LINE}${LINE}`, ':2: found xxx'],
])('%s is refused with the line, what was found and what is accepted', async (_, text, message) => {
  await expect(read(text)).rejects.toThrow(message)
})
