/** Tokens of the admin API: made and revoked. */
import { show } from '@sluice/core'
import type { CatalogToken, RuleCatalog } from '../sync/rule-catalog.js'
import type { EditContext } from './edit-plan.js'
import { EditError } from './edit-errors.js'
import type { Editor } from './editor.js'
import { makeToken, TOKENS_MAX } from './token-creation.js'

/** Those that the history has without a token of that name. */
const OWN_NAMES: readonly string[] = ['admin', 'sluice']

/** The name of a token that has expired is free again. */
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
          const message = `name: found ${show(document.name)}, which another has already; accepted: a name of its own, because the history tells by it who changed something`
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
