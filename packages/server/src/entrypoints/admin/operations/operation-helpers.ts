/** Helpers of several operations. */
import { show } from '@sluice/core'
import { EditError } from '../../../rules/editor/edit-errors.js'
import type { CatalogRule, RuleCatalog } from '../../../rules/sync/rule-catalog.js'
import { invalid } from '../admin-error.js'

export const BASE = '/admin/v1'

const IDS_SHOWN = 5

export function findRule(catalog: RuleCatalog, id: string): CatalogRule {
  const rule = catalog.rule(id)
  if (rule !== undefined) return rule
  const ids = catalog.rules().slice(0, IDS_SHOWN)
  const some =
    ids.length === 0 ? '' : `, such as ${ids.map(({ document }) => document.id).join(', ')}`
  throw new EditError(
    'rule_unknown',
    `rule: found "${show(id)}"; accepted: the id of a rule${some}`,
  )
}

/** A page of a list that was read with one item more than the limit. */
export function pageOf<Item, Next>(
  items: readonly Item[],
  limit: number,
  nextOf: (last: Item) => Next,
): { readonly page: readonly Item[]; readonly next: Next | null } {
  const page = items.slice(0, limit)
  const last = page.at(-1)
  return { page, next: items.length > limit && last !== undefined ? nextOf(last) : null }
}

/** The version in a body that was read before, if it has one. */
export function versionIn(body: unknown): number | undefined {
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, 'version')) return undefined
  const { version } = body as { readonly version: unknown }
  if (version === undefined) return undefined
  if (Number.isSafeInteger(version) && Number(version) >= 0) return Number(version)
  throw invalid('version', show(version), 'the version that was read, a whole number')
}
