/** Routes of the API keys of callers, and of the tokens of the admin API itself. */
import { segment } from '../address.js'
import type { Send } from '../send.js'
import type {
  ChangeResult,
  KeyInput,
  KeyPatch,
  KeysPage,
  KeyView,
  TokenInput,
  TokenView,
} from '../api-types.js'
import type { Change, PageOptions, VersionedChange } from './route-options.js'

const keyOf = (id: string) => `/keys/${segment('key', id)}`

export function keyRoutes(send: Send) {
  return {
    listKeys: (page: PageOptions & { readonly user?: string | undefined } = {}) =>
      send({ method: 'GET', has: 'keys', path: '/keys', query: { ...page } }) as Promise<KeysPage>,

    getKey: (id: string) =>
      send({ method: 'GET', has: 'version', path: keyOf(id) }) as Promise<KeyView>,

    /** The key itself is in this response and in no other. */
    addKey: (key: KeyInput, { why }: Change = {}) =>
      send({
        method: 'POST',
        has: 'version',
        path: '/keys',
        query: { why },
        body: key,
        isChange: true,
      }) as Promise<KeyView>,

    /** Registers up to 1,000 keys: all or none. */
    addKeys: (keys: readonly KeyInput[], { why }: Change = {}) =>
      send({
        method: 'POST',
        has: 'keys',
        path: '/keys',
        query: { why },
        body: keys,
        isChange: true,
      }) as Promise<{ readonly keys: readonly KeyView[] }>,

    /** Null removes a field. */
    patchKey: (id: string, patch: KeyPatch, { ifMatch, why }: VersionedChange = {}) =>
      send({
        method: 'PATCH',
        has: 'version',
        path: keyOf(id),
        query: { why },
        body: patch,
        ifMatch,
        isChange: true,
      }) as Promise<KeyView>,

    deleteKey: (id: string, { ifMatch, why }: VersionedChange = {}) =>
      send({
        method: 'DELETE',
        has: 'version',
        path: keyOf(id),
        query: { why },
        ifMatch,
        isChange: true,
      }) as Promise<ChangeResult>,

    ...tokenRoutes(send),
  }
}

function tokenRoutes(send: Send) {
  return {
    listTokens: () =>
      send({ method: 'GET', has: 'tokens', path: '/tokens' }) as Promise<{
        readonly tokens: readonly TokenView[]
      }>,

    /** The token itself is in this response and in no other. */
    addToken: (token: TokenInput, { why }: Change = {}) =>
      send({
        method: 'POST',
        has: 'token',
        path: '/tokens',
        query: { why },
        body: token,
        isChange: true,
      }) as Promise<TokenView>,

    deleteToken: (id: string, { why }: Change = {}) =>
      send({
        method: 'DELETE',
        has: 'version',
        path: `/tokens/${segment('token', id)}`,
        query: { why },
        isChange: true,
      }) as Promise<ChangeResult>,
  }
}
