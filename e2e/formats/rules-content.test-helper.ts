/**
 * The content of a rule store of `conformance/formats`: the changes that made it, and how it is
 * read.
 */
import type { AdminClient } from '@sluice/client'

/** Everything that the admin API returns from a rule store. */
export interface RulesContent {
  readonly set: unknown
  readonly overrides: Readonly<Record<string, unknown>>
  readonly versions: unknown
  readonly keys: unknown
  readonly tokens: unknown
}

/** `rules.json`. */
export interface RulesFixture extends RulesContent {
  /** Keys and tokens as callers send them; a store has only their hashes. */
  readonly secrets: {
    readonly activeKey: string
    readonly disabledKey: string
    readonly tokens: Readonly<Record<string, string>>
  }
}

/** The rule with durable counters, whose callers reach their limit. */
export const DURABLE_RULE = 'exports'
export const DURABLE_MAX = 5
/** The rule with durable counters that blocks a caller. */
export const BLOCKING_RULE = 'attempts'

const SET = `
routes:
  - POST /v1/exports
  - GET /v1/orders/:id
  - "/*"
rules:
  - id: per-user
    by: [user]
    limits: [100/minute]
    tiers:
      plan:
        pro: [{ max: 300, window: 1m, burst: 321, wait: 200ms }]
        partner: []
    overrides:
      - caller: { user: u1 }
        limits: [7/minute]
        until: 2999-01-01T00:00:00Z
  - id: ${DURABLE_RULE}
    match: { method: POST, path: /v1/exports }
    by: [user]
    limits: [{ algorithm: fixed-window, max: ${DURABLE_MAX}, window: 30d, name: monthly }]
    durable: true
  - id: ${BLOCKING_RULE}
    match: { method: POST, path: /v1/attempts }
    by: [user]
    limits: [{ algorithm: fixed-window, start: call, max: 1, window: 1h, block: { first: 10d, factor: 2, max: 60d } }]
    durable: true
  - id: logins
    match: { path: "/v1/login", where: { user: null } }
    by: [ip]
    mode: shadow
    limits: [{ algorithm: sliding-window-log, max: 5, window: 5m }]
    posture: closed
  - id: given-up
    by: [user]
    limits: [1/second]
`

/** Changes of every kind, so that the store holds all kinds of records. */
export async function changeRules(client: AdminClient): Promise<RulesFixture['secrets']> {
  await client.applyRules(SET, { why: 'the set "begins" — with ümlauts' })
  await client.patchRule('per-user', { limits: ['90/minute'] }, { why: 'less' })
  await client.createRule({ id: 'late', by: [], limits: ['1000/hour'], coordination: 'split' })
  await client.deleteRule('given-up')
  await client.addOverrides('per-user', [
    { caller: { user: 'u2' }, limits: [] },
    { caller: { user: 'ü/3, =%' }, limits: [{ max: 1, window: '1h' }] },
    { caller: { user: 'gone' }, limits: ['1/hour'] },
  ])
  await client.deleteOverride('per-user', 'user=gone')
  await client.putCandidate('per-user', { limits: ['80/minute'], tiers: { plan: { pro: [] } } })
  await client.putCandidate('logins', { limits: ['4/minute'] })
  await client.promoteRule('logins')
  await client.patchRule('late', { limits: ['999/hour'] })
  const { versions } = await client.listVersions({ limit: 2 })
  await client.rollbackRule('late', versions[1]?.version ?? 1, { why: 'not so' })
  const activeKey = 'sk_format_active_0123456789'
  const disabledKey = 'sk_format_disabled_0123456789'
  await client.addKeys([
    { key: activeKey, user: 'u9', plan: 'pro', name: 'of the fixtures' },
    { key: disabledKey, user: 'u8' },
    { sha256: 'ab'.repeat(32), user: 'u7' },
  ])
  const { keys } = await client.listKeys({ user: 'u8' })
  await client.patchKey(keys[0]?.id ?? '', { state: 'disabled' })
  const tokens: Record<string, string> = {}
  for (const role of ['read', 'edit', 'admin'] as const) {
    const made = await client.addToken({ name: `a ${role}er`, role })
    tokens[role] = made.token ?? ''
  }
  const expired = await client.addToken({ name: 'gone', role: 'read' })
  await client.deleteToken(expired.id)
  await client.addToken({ name: 'ends', role: 'read', expiresAt: '2999-01-01T00:00:00Z' })
  return { activeKey, disabledKey, tokens }
}

export async function readContent(client: AdminClient): Promise<RulesContent> {
  const set = await client.listRules({ limit: 1000 })
  const overrides: Record<string, unknown> = {}
  for (const { id } of set.rules) {
    overrides[id] = (await client.listOverrides(id, { limit: 1000 })).overrides
  }
  return {
    set,
    overrides,
    versions: (await client.listVersions({ limit: 1000 })).versions,
    keys: (await client.listKeys({ limit: 1000 })).keys,
    tokens: (await client.listTokens()).tokens,
  }
}
