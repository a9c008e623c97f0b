/** Tokens of the admin API: made and revoked. */
import type { EditContext } from './context.js'
import { EditError, type Editor } from './editor-types.js'
import { makeToken, TOKENS_MAX } from './tokens.js'

type TokenEdits = Pick<Editor, 'createToken' | 'removeToken'>

export function tokenEdits({ commits, clock }: EditContext): TokenEdits {
  const random = (count: number) => commits.random(count)
  return {
    async createToken(token, meta) {
      void commits.store
      const { id, document, token: made } = makeToken(token, clock.now(), random)
      return commits.run(meta, (book) => {
        const count = book.tokens().length
        if (count >= TOKENS_MAX) {
          const message = `found ${count} tokens already; accepted: up to ${TOKENS_MAX}. Remove some that are not used`
          throw new EditError('token_invalid', message)
        }
        return {
          changes: [{ kind: 'token', id, body: document }],
          answer: (version) => ({ id, document, version, token: made }),
        }
      })
    },

    async removeToken(id, meta) {
      return commits.run(meta, (book) => {
        if (!book.tokens().some((token) => token.id === id)) {
          throw new EditError('token_unknown', `there is no token ${id}`)
        }
        return { changes: [{ kind: 'token', id, body: null }], answer: (version) => version }
      })
    },
  }
}
