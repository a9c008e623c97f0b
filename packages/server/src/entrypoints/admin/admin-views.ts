/** Views of the rule store's contents in the admin API. */
import type { CreatedKey, CreatedToken } from '../../rules/editor/editor.js'
import {
  type KeyDocument,
  type Kind,
  optionalSetFields,
  type TokenDocument,
} from '../../rules/store/records.js'
import type { PastChange, PastVersion } from '../../rules/store/rule-store.js'
import type { CatalogOverride, CatalogRule, RuleCatalog } from '../../rules/sync/rule-catalog.js'
import type { RuleFollower } from '../../rules/sync/rule-follower.js'

export function viewRule(
  { document, candidate, version, overrideCount }: CatalogRule,
  ruleFollower: Pick<RuleFollower, 'shadowUntil'>,
) {
  // A rule whose own mode is shadow or off is not affected.
  const isEnforced = document['mode'] === undefined || document['mode'] === 'enforce'
  const shadowUntil = isEnforced ? ruleFollower.shadowUntil(document.id) : undefined
  return {
    ...document,
    ...(candidate && { candidate }),
    version,
    overrideCount,
    ...(shadowUntil !== undefined && { shadowUntil }),
  }
}

export function viewOverride({ id, document, version }: CatalogOverride) {
  return { id, ...document, version }
}

/** Omits the hash, which is useless to a reader and could help an attacker. */
export function viewKey({
  id,
  document,
  version,
  key,
}: Omit<CreatedKey, 'key'> & Partial<CreatedKey>) {
  const { hash: _hash, ...rest }: KeyDocument = document
  return { id, ...rest, version, ...(key !== undefined && { key }) }
}

export function viewToken({
  id,
  document,
  token,
}: Pick<CreatedToken, 'id' | 'document'> & Partial<CreatedToken>) {
  const { hash: _hash, ...rest }: TokenDocument = document
  return { id, ...rest, ...(token !== undefined && { token }) }
}

export function viewVersion({ version, at, by, why, changeCount, changes }: PastVersion) {
  return { version, at, by, why: why ?? null, changeCount, changes: changes.map(viewChange) }
}

const WITH_SECRETS: readonly Kind[] = ['key', 'token', 'secret']

function viewChange({ kind, id, before, after }: PastChange) {
  const show = WITH_SECRETS.includes(kind) ? withoutSecrets : (body: unknown) => body ?? null
  return { kind, id, before: show(before), after: show(after) }
}

function withoutSecrets(body: unknown): unknown {
  if (typeof body !== 'object' || body === null) return null
  const shown = Object.entries(body).filter(([name]) => name !== 'hash' && name !== 'secret')
  return Object.fromEntries(shown)
}

/** The contents of a rules file, in its order and shape. */
export function wholeSet(catalog: RuleCatalog): object {
  const { routes, strictPaths } = catalog.set
  const rules = catalog.rules().map(({ document, candidate }) => {
    // In the order of their callers: every node writes the same text.
    const all = catalog.overrides(document.id, undefined, Number.POSITIVE_INFINITY)
    const overrides = all.map((override) => override.document)
    return {
      ...document,
      ...(candidate && { candidate }),
      ...(overrides.length > 0 && { overrides }),
    }
  })
  return {
    ...(routes.length > 0 && { routes }),
    ...(strictPaths && { strictPaths }),
    ...optionalSetFields(catalog.set),
    rules,
  }
}
