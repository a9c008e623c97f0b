/** Secrets in rules are stored masked, as calls have them, for every way to edit a rule. */
import { afterEach, describe, expect, test } from 'vitest'
import { contentsOf, type EditingNode, editingNode, META, RULE } from './editor.test-helper.js'

const SECRET = 'sk_0123456789abcdef'
const OTHER_SECRET = 'sk_fedcba9876543210'

const open: EditingNode[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((node) => node.close()))
})

async function openNode(): Promise<EditingNode> {
  const node = await editingNode()
  open.push(node)
  return node
}

const SECRETS = {
  ...RULE,
  match: { where: { api_key: [SECRET], plan: ['pro'] } },
  tiers: { api_key: { [OTHER_SECRET]: ['5/second'] } },
  candidate: { limits: ['1/second'], tiers: { api_key: { [SECRET]: ['2/second'] } } },
}

function expectHidden({ catalog }: EditingNode): void {
  const text = JSON.stringify(contentsOf(catalog))
  expect(text).not.toContain(SECRET)
  expect(text).not.toContain(OTHER_SECRET)
  expect(text).toMatch(/"api_key":\["[0-9a-f]{16}\.\.cdef"\],"plan":\["pro"\]/)
}

describe('a secret in a rule', () => {
  test.each([
    ['created', (node: EditingNode) => node.editor.create(SECRETS, META)],
    ['applied', (node: EditingNode) => node.editor.apply([SECRETS], META, {})],
    ['tried', (node: EditingNode) => node.editor.apply([SECRETS], META, { shadow: true })],
  ])('a secret is stored as hash and last characters when the rule is %s', async (_way, edit) => {
    const node = await openNode()
    await edit(node)
    expectHidden(node)
  })

  test('a secret among excluded values is masked', async () => {
    const where = { api_key: { not: [SECRET, 'another'] }, plan: { not: 'pro' } }
    const { editor, catalog } = await openNode()
    await editor.create({ ...RULE, match: { where } }, META)
    const stored = JSON.stringify(contentsOf(catalog))
    expect(stored).not.toContain(SECRET)
    expect(stored).not.toContain('"another"')
    expect(stored).toContain('"plan":{"not":"pro"}')
  })

  test('a secret is masked when a rule is replaced, patched, or gets a candidate', async () => {
    const node = await openNode()
    const { editor } = node
    await editor.create(RULE, META)
    const { candidate, tiers, match, ...rest } = SECRETS
    await editor.replace('orders', { ...rest, tiers }, META, undefined)
    await editor.patch('orders', { match }, META, undefined)
    await editor.putCandidate('orders', candidate, META, undefined)
    expectHidden(node)
  })

  test('sending the same secret again changes nothing', async () => {
    const { editor } = await openNode()
    const { version } = await editor.create(SECRETS, META)
    expect(await editor.apply([SECRETS], META, {})).toMatchObject({ version, diff: { rules: [] } })
  })

  test('a masked secret matches the calls that have it', async () => {
    const { editor, limiter, catalog } = await openNode()
    await editor.create({ ...RULE, match: { where: { api_key: SECRET } } }, META)
    const where = catalog.rule('orders')?.document['match'] as { where: { api_key: string } }
    const attributes = { user: 'u1', ...where.where }
    expect(limiter.checkSync({ attributes }).rule).toBe('orders')
  })
})
