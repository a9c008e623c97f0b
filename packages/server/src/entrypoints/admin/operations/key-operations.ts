/** Operations on API keys of callers, and on tokens of the admin API itself. */
import { z } from 'zod'
import { show } from '@sluice/core'
import { EditError } from '../../../rules/editor/edit-errors.js'
import {
  checkedBody,
  expectedOf,
  operation,
  type Operation,
  type SuccessResponse,
} from '../operation.js'
import { after, limit, text } from '../query-parameters.js'
import {
  ITEMS_MAX,
  keyInput,
  keyPatch,
  keysMade,
  keysPage,
  keyView,
  tokenInput,
  tokenList,
  tokenView,
  changeResult,
} from '@sluice/api'
import { viewKey, viewToken } from '../admin-views.js'
import { BASE, pageOf } from './operation-helpers.js'

const tag = 'Keys'
const KEYS = `${BASE}/keys`
const TOKENS = `${BASE}/tokens`
const theKey: SuccessResponse = {
  status: 200,
  description: 'The key.',
  schema: keyView,
  etag: true,
}

const listKeys = operation({
  method: 'get',
  path: KEYS,
  id: 'listKeys',
  tag,
  summary: 'List known keys, in the order of their ids',
  role: 'read',
  query: { user: text.meta({ description: 'Only keys of this user.' }), after, limit },
  answers: [{ status: 200, description: 'A page of keys.', schema: keysPage }],
  async run({ query }, { ruleFollower: { store } }) {
    const filter = { user: query.user, after: query.after, limit: query.limit + 1 }
    const stored = (await store?.keys(filter)) ?? []
    const keys = stored.flatMap(({ id, body, version }) =>
      body === null ? [] : { id, document: body, version },
    )
    const { page, next } = pageOf(keys, query.limit, ({ id }) => id)
    return { status: 200, body: { keys: page.map(viewKey), next } }
  },
})

const KEYS_ACCEPTED = `a key such as {"user":"u1"}, or a list of 1 to ${ITEMS_MAX}`
const oneKey = checkedBody(keyInput)
const manyKeys = checkedBody(z.array(keyInput).min(1, KEYS_ACCEPTED).max(ITEMS_MAX, KEYS_ACCEPTED))

const createKeys = operation({
  method: 'post',
  path: KEYS,
  id: 'createKeys',
  tag,
  summary: 'Register a key, or up to 1,000',
  description:
    'Without `key` and `sha256` the server makes a key, which only this response contains.',
  role: 'edit',
  writes: true,
  body: {
    ...oneKey,
    schema: z.union([keyInput, z.array(keyInput).max(ITEMS_MAX)]),
    read: (sent): z.output<typeof keyInput> | z.output<typeof keyInput>[] =>
      Array.isArray(sent) ? manyKeys.read(sent) : oneKey.read(sent),
  },
  answers: [{ status: 201, description: 'The key, or the list.', schema: keysMade }],
  async run({ body, meta }, { editor }) {
    if (Array.isArray(body)) {
      const keys = await editor.createKeys(body, meta)
      return { status: 201, body: { keys: keys.map(viewKey) } }
    }
    const [made] = await editor.createKeys([body], meta)
    if (made === undefined) throw new Error('one key was made and none came back')
    const { id, version } = made
    return { status: 201, body: viewKey(made), etag: version, location: `${KEYS}/${id}` }
  },
})

const getKey = operation({
  method: 'get',
  path: `${KEYS}/{id}`,
  id: 'getKey',
  tag,
  summary: 'Read what is known of a key',
  role: 'read',
  answers: [theKey],
  async run({ param }, { ruleFollower: { store } }) {
    const id = param('id')
    const stored = await store?.key(id)
    if (stored === undefined || stored.body === null) {
      throw new EditError('key_unknown', `key: found "${show(id)}"; accepted: the id of a key`)
    }
    const { version, body } = stored
    return { status: 200, body: viewKey({ id, document: body, version }), etag: version }
  },
})

const patchKey = operation({
  method: 'patch',
  path: `${KEYS}/{id}`,
  id: 'patchKey',
  tag,
  summary: 'Change the user, plan, state or name of a key',
  role: 'edit',
  writes: true,
  ifMatch: 'honoured',
  body: { ...checkedBody(keyPatch), kinds: ['merge-patch', 'json'] },
  answers: [theKey],
  async run({ param, body, ifMatch, meta }, { editor }) {
    const key = await editor.patchKey(param('id'), body, meta, expectedOf(ifMatch))
    return { status: 200, body: viewKey(key), etag: key.version }
  },
})

const deleteKey = operation({
  method: 'delete',
  path: `${KEYS}/{id}`,
  id: 'deleteKey',
  tag,
  summary: 'Forget a key',
  role: 'edit',
  writes: true,
  ifMatch: 'honoured',
  answers: [{ status: 200, description: 'It is gone.', schema: changeResult }],
  async run({ param, ifMatch, meta }, { editor }) {
    const version = await editor.removeKey(param('id'), meta, expectedOf(ifMatch))
    return { status: 200, body: { version } }
  },
})

const listTokens = operation({
  method: 'get',
  path: TOKENS,
  id: 'listTokens',
  tag: 'Tokens',
  summary: 'List the tokens of the admin API',
  description: 'Without the one that the server was started with.',
  role: 'admin',
  answers: [{ status: 200, description: 'The tokens.', schema: tokenList }],
  run: (_request, { ruleFollower: { catalog: book } }) => ({
    status: 200,
    body: { tokens: book.tokens().map(({ id, document }) => viewToken({ id, document })) },
  }),
})

const createToken = operation({
  method: 'post',
  path: TOKENS,
  id: 'createToken',
  tag: 'Tokens',
  summary: 'Make a token of the admin API',
  description: 'Only this response contains it.',
  role: 'admin',
  writes: true,
  body: checkedBody(tokenInput),
  answers: [{ status: 201, description: 'The token.', schema: tokenView }],
  async run({ body, meta }, { editor }) {
    return { status: 201, body: viewToken(await editor.createToken(body, meta)) }
  },
})

const deleteToken = operation({
  method: 'delete',
  path: `${TOKENS}/{id}`,
  id: 'deleteToken',
  tag: 'Tokens',
  summary: 'Revoke a token of the admin API',
  role: 'admin',
  writes: true,
  answers: [{ status: 200, description: 'It is gone.', schema: changeResult }],
  async run({ param, meta }, { editor }) {
    return { status: 200, body: { version: await editor.removeToken(param('id'), meta) } }
  },
})

export const KEY_OPERATIONS: readonly Operation[] = [
  listKeys,
  createKeys,
  getKey,
  patchKey,
  deleteKey,
  listTokens,
  createToken,
  deleteToken,
]
