/** Conformance of the texts and bodies that records may hold. */
import { expect, test } from 'vitest'
import { commit, readAll, rule, type WithStore } from './conformance-kit.test-helper.js'
import type { Change } from './records.js'

const ODD_TEXTS = [
  "o'neil; DROP TABLE rules --",
  '"quoted" \\ back\\u0000slash',
  '100% of %s and $1 and {0}',
  'ünï-çødé 漢字 🦀 \u{10FFFF} \uFFFD',
  'مرحبا \u202E right to left',
  'line\nfeed\r\n\ttab \u0001 \u007f \u2028 \u2029 \uFEFF',
  '__proto__',
  'constructor',
  'NULL',
  ' spaces at both ends ',
  'e\u0301 and \u00e9 are two texts',
  'x'.repeat(1024),
  '漢'.repeat(341),
]

const NUMBERS = [0, -1, 1.5, 2 ** 53 - 1, 1e-7, 1e21]

const UNSTORABLE = ['a\0b', '\0', 'half \ud83d of a character', '\udc00']

export function textClaims(
  withStore: WithStore,
  can: { readonly connect: boolean; readonly reopen: boolean },
): void {
  test(
    'ids may be any text up to 1 KB, and are returned unchanged',
    withStore(async ({ store, connect, reopen }) => {
      const changes = ODD_TEXTS.map((id): Change => ({ kind: 'token', id, body: token(id) }))
      const since = (await readAll(store)).position
      await commit(store, changes)
      const again = (can.connect ? await connect?.() : await reopen?.()) ?? store
      const expected = new Map(ODD_TEXTS.map((id) => [id, token(id)]))
      for (const from of [undefined, since]) {
        const { records } = await readAll(again, from)
        const tokens = records.filter(({ kind }) => kind === 'token')
        expect(new Map(tokens.map(({ id, body }) => [id, body]))).toEqual(expected)
      }
      const [latest] = await again.history({ limit: 1 })
      expect(new Set(latest?.changes.map(({ id }) => id))).toEqual(new Set(ODD_TEXTS))
      await commit(
        again,
        ODD_TEXTS.map((id): Change => ({ kind: 'token', id, body: null })),
      )
      expect((await readAll(again)).records).toHaveLength(1)
    }),
  )

  test(
    'keys with unusual ids and users are found',
    withStore(async ({ store }) => {
      const body = { hash: 'f'.repeat(64), state: 'active', createdAt: '' } as const
      const changes = ODD_TEXTS.map(
        (id): Change => ({ kind: 'key', id, body: { ...body, user: id } }),
      )
      await commit(store, changes)
      for (const id of ODD_TEXTS) {
        expect((await store.key(id))?.body?.user).toBe(id)
        expect((await store.keys({ user: id, limit: 5 })).map((found) => found.id)).toEqual([id])
      }
    }),
  )

  test(
    'bodies may be any JSON, and author and reason any text',
    withStore(async ({ store }) => {
      const nested = JSON.parse('{"__proto__": {"x": 1}, "constructor": null}') as object
      const limits = [
        ...ODD_TEXTS,
        ...NUMBERS,
        [true, false, null, [[[{}]], []]],
        nested,
        Object.fromEntries(ODD_TEXTS.map((text) => [text, text])),
      ]
      const why = ODD_TEXTS.join(' ')
      await commit(store, [{ kind: 'candidate', id: 'a', body: { limits } }], { by: 'ünï', why })
      const { records } = await readAll(store)
      const found = records.find(({ kind }) => kind === 'candidate')?.body
      // As text with sorted names: `toEqual` sees no own property called __proto__.
      expect(sortedText(found)).toBe(sortedText({ limits }))
      const [latest] = await store.history({ limit: 1 })
      expect(latest).toMatchObject({ by: 'ünï', why })
    }),
  )

  test(
    'NUL and lone surrogates are refused everywhere',
    withStore(async ({ store }) => {
      for (const text of UNSTORABLE) {
        const bad: readonly Change[] = [
          rule(text),
          { kind: 'candidate', id: 'a', body: { limits: [[{ deep: text }]] } },
          { kind: 'candidate', id: 'a', body: { limits: [{ [text]: 1 }] } },
        ]
        for (const change of bad) {
          const refused = commit(store, [rule('fine'), change], { base: 1 })
          await expect(refused).rejects.toThrow(RangeError)
        }
        const meta = { base: 1, by: text, why: text }
        await expect(commit(store, [rule('a')], meta)).rejects.toThrow(RangeError)
        await expect(store.adopt(1, 'ada', text)).rejects.toThrow(RangeError)
      }
      expect((await readAll(store)).position.version).toBe(1)
    }),
  )
}

function token(name: string) {
  return { hash: 'a'.repeat(64), name, role: 'read', createdAt: name } as const
}

function sortedText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sortedText).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const fields = Object.entries(value).map(
    ([name, inner]) => [JSON.stringify(name), inner] as const,
  )
  const sorted = fields.toSorted(([a], [b]) => (a < b ? -1 : 1))
  return `{${sorted.map(([name, inner]) => `${name}:${sortedText(inner)}`).join()}}`
}
