/** API keys of callers; tokens and browser sessions of the admin API. */
import { z } from 'zod'
import { type Input, instant, strictObject, version, type View } from './schema.js'

export const ITEMS_MAX = 1000

const NAME_LENGTH_MAX = 1024
const ACCEPTED_NAME = `text of 1 to ${NAME_LENGTH_MAX} characters`
const name = z.string(ACCEPTED_NAME).min(1, ACCEPTED_NAME).max(NAME_LENGTH_MAX, ACCEPTED_NAME)
const keyState = z.enum(['active', 'disabled'], 'active or disabled')
const SHA256 = '64 hex digits'

export const keyView = z
  .object({
    id: z.string(),
    user: z.string().optional(),
    plan: z.string().optional(),
    state: keyState,
    name: z.string().optional(),
    last4: z.string().optional(),
    createdAt: z.string(),
    version,
    key: z.string().optional().meta({ description: 'Only in the response that created it.' }),
  })
  .meta({ id: 'Key' })
export type KeyView = View<typeof keyView>

export const keysPage = z
  .object({ keys: z.array(keyView), next: z.string().nullable() })
  .meta({ id: 'KeysPage' })
export type KeysPage = View<typeof keysPage>

export const keyList = z.object({ keys: z.array(keyView) }).meta({ id: 'Keys' })
export type KeyList = View<typeof keyList>

export const keysMade = z.union([keyView, keyList])
export type KeysMade = View<typeof keysMade>

export const keyInput = strictObject({
  key: name
    .optional()
    .meta({ description: 'The key itself. Without key and sha256 one is generated.' }),
  sha256: z
    .string(SHA256)
    .regex(/^[0-9a-fA-F]{64}$/, SHA256)
    .optional(),
  user: name.optional(),
  plan: name.optional(),
  state: keyState.optional(),
  name: name.optional(),
}).meta({ id: 'KeyInput', example: { user: 'u1', plan: 'pro' } })
export type KeyInput = Input<typeof keyInput>

export const keyPatch = strictObject({
  user: name.nullable().optional(),
  plan: name.nullable().optional(),
  state: keyState.optional(),
  name: name.nullable().optional(),
}).meta({ id: 'KeyPatch', description: 'Null removes a field.', example: { state: 'disabled' } })
export type KeyPatch = Input<typeof keyPatch>

export const role = z.enum(['read', 'edit', 'admin'], 'read, edit or admin')
export type Role = View<typeof role>

const ACCEPTED_TIME = 'a date and time such as 2027-01-01T00:00:00Z'

export const tokenView = z
  .object({
    id: z.string(),
    name: z.string(),
    role,
    createdAt: z.string(),
    expiresAt: z.string().optional(),
    token: z.string().optional().meta({ description: 'Only in the response that created it.' }),
  })
  .meta({ id: 'Token' })
export type TokenView = View<typeof tokenView>

export const tokenList = z.object({ tokens: z.array(tokenView) }).meta({ id: 'Tokens' })
export type TokenList = View<typeof tokenList>

export const tokenInput = strictObject({
  name,
  role,
  expiresAt: z.string(ACCEPTED_TIME).max(64, ACCEPTED_TIME).optional(),
}).meta({ id: 'TokenInput', example: { name: 'ci', role: 'edit' } })
export type TokenInput = Input<typeof tokenInput>

export const sessionView = z
  .object({
    name: z.string(),
    role,
    expiresAt: instant,
    csrf: z.string().meta({ description: 'Sent back as `X-Sluice-Csrf` with every change.' }),
  })
  .meta({ id: 'Session' })
export type SessionView = View<typeof sessionView>

export const sessionEnded = z.object({ ended: z.literal(true) }).meta({ id: 'SessionEnded' })
export type SessionEnded = View<typeof sessionEnded>

const ACCEPTED_TOKEN = 'a token of the admin API, 1 to 1,024 characters'

export const sessionInput = strictObject({
  token: z.string(ACCEPTED_TOKEN).min(1, ACCEPTED_TOKEN).max(1024, ACCEPTED_TOKEN),
}).meta({ id: 'SessionInput' })
export type SessionInput = Input<typeof sessionInput>
