/** Edits of admin API tokens: create, revoke. */
import { show } from '@sluice/core'
import type { CatalogToken, RuleCatalog } from '../sync/rule-catalog.js'
import type { EditContext } from './edit-plan.js'
import { EditError } from './edit-errors.js'
import type { Editor } from './editor.js'
import { makeToken, TOKENS_MAX } from './token-creation.js'

/** Names in the history that do not belong to a token. */
const OWN_NAMES: readonly string[] = ['admin', 'sluice']

/** Whether a name is in use. The name of an expired token is free again. */
function isTaken(name: string, catalog: RuleCatalog, nowMs: number): boolean {
  const isSameName = (other: string) => other.toLowerCase() === name.toLowerCase()
  const isInUse = ({ document }: CatalogToken) =>
    isSameName(document.name) && !(Date.parse(document.expiresAt ?? '') <= nowMs)
  return OWN_NAMES.some(isSameName) || catalog.tokens().some(isInUse)
}

type TokenEdits = Pick<Editor, 'createToken' | 'removeToken'>

export function tokenEdits({ commits, clock }: EditContext): TokenEdits {
  const random = (count: number) => commits.random(count)
  return {
    async createToken(token, meta) {
      void commits.store
      const { id, document, token: made } = makeToken(token, clock.now(), random)
      return commits.run(meta, (catalog) => {
        const count = catalog.tokens().length
        if (count >= TOKENS_MAX) {
          const message = `found ${count} tokens already; accepted: up to ${TOKENS_MAX}. Remove some that are not used`
          throw new EditError('token_invalid', message)
        }
        if (isTaken(document.name, catalog, clock.now())) {
          const message = `name: found ${show(document.name)}, which is in use; accepted: a unique name, because the history identifies who made a change by it`
          throw new EditError('token_invalid', message)
        }
        return {
          changes: [{ kind: 'token', id, body: document }],
          result: (version) => ({ id, document, version, token: made }),
        }
      })
    },

    async removeToken(id, meta) {
      return commits.run(meta, (catalog) => {
        if (!catalog.tokens().some((token) => token.id === id)) {
          throw new EditError('token_unknown', `there is no token ${id}`)
        }
        return { changes: [{ kind: 'token', id, body: null }], result: (version) => version }
      })
    },
  }
}
