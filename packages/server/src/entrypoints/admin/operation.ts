/** One operation of the admin API: its documentation, what it accepts, and what it does. */
import { z } from 'zod'
import { show } from '@sluice/core'
import { nearest } from '@sluice/core/config-reader'
import type { Meta } from '../../rules/editor/editor.js'
import type { Role } from '../../rules/store/records.js'
import type { Principal } from './principals.js'
import type { AdminDeps } from './admin-deps.js'
import type { Sender } from './authenticate.js'
import { AdminError, invalid, type ReportedProblem } from './admin-error.js'
import { BODY_BYTES_MAX, type BodyKind, readQuery, type ExpectedVersion } from './read-request.js'

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'

/** A request before its parts are checked. */
interface RawOperationRequest {
  /** By name, still percent-encoded. */
  readonly params: ReadonlyMap<string, string>
  readonly search: URLSearchParams
  readonly ifMatch: ExpectedVersion
  /** Undefined if the operation is open. */
  readonly principal: Principal | undefined
  readonly sender: Sender
  /** Undefined if the operation takes no body. */
  readonly body: unknown
}

interface OperationRequest<Query, Body> {
  /** The decoded value of a parameter of the path. */
  readonly param: (name: string) => string
  /** The same, still percent-encoded. */
  readonly rawParam: (name: string) => string
  readonly query: Query
  readonly body: Body
  readonly ifMatch: ExpectedVersion
  readonly meta: Meta
  readonly sender: Sender
}

export interface Reply {
  readonly status: 200 | 201
  /** Sent as JSON; a string is YAML, a stream is server-sent events. */
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly etag?: number | undefined
  readonly location?: string | undefined
}

export interface BodySpec<Body> {
  readonly kinds: readonly BodyKind[]
  readonly bytesMax: number
  /** For the document; `read` checks it unless it says otherwise. */
  readonly schema: z.ZodType
  read(sent: unknown): Body
  /** Parses large JSON off this thread. The query is not checked yet. */
  readonly readLarge?: (text: string, search: URLSearchParams, deps: AdminDeps) => Promise<unknown>
}

/** A successful response, for the document. */
export interface SuccessResponse {
  readonly status: 200 | 201
  readonly description: string
  readonly schema: z.ZodType
  readonly type?: 'application/yaml' | 'text/event-stream'
  readonly etag?: boolean
}

interface OperationSpec {
  readonly method: Method
  readonly path: string
  /** `operationId` of the document. */
  readonly id: string
  readonly tag: string
  readonly summary: string
  readonly description?: string
  /** The least role that may call it. */
  readonly role: Role
  /** Whether it needs no credentials, as the login. @default false */
  readonly isOpen?: boolean
  /** Whether it changes the rule store; then it takes `why`. */
  readonly writes?: boolean
  /** Whether `If-Match` is required or optional; undefined: not supported. */
  readonly ifMatch?: 'needed' | 'honoured'
  readonly answers: readonly SuccessResponse[]
}

interface OperationDefinition<Query extends z.ZodRawShape, Body> extends OperationSpec {
  readonly query?: Query
  readonly body?: BodySpec<Body>
  readonly run: (
    request: OperationRequest<QueryOf<Query>, Body>,
    deps: AdminDeps,
  ) => Reply | Promise<Reply>
}

type QueryOf<Query extends z.ZodRawShape> = z.output<z.ZodObject<Query>>

export interface Operation extends OperationSpec {
  readonly query: z.ZodObject
  readonly body: BodySpec<unknown> | undefined
  run(sent: RawOperationRequest, deps: AdminDeps): Promise<Reply>
}

const WHY_LENGTH_MAX = 500
const ACCEPTED_WHY = `up to ${WHY_LENGTH_MAX} printable characters`

const whyShape = {
  why: z
    .string()
    .refine((text) => show(text, WHY_LENGTH_MAX) === text, ACCEPTED_WHY)
    .optional()
    .meta({
      description: 'Why, for the history.',
      maxLength: WHY_LENGTH_MAX,
      example: 'incident 42',
    }),
}

export function operation<Query extends z.ZodRawShape = z.ZodRawShape, Body = undefined>(
  definition: OperationDefinition<Query, Body>,
): Operation {
  const { query: shape, body, run, ...spec } = definition
  const own = z.object(shape ?? {})
  const why = z.object(spec.writes === true ? whyShape : {})
  const query = z.object({ ...own.shape, ...why.shape })
  const names = Object.keys(query.shape)
  return {
    ...spec,
    query,
    body,
    async run({ params, search, ifMatch, principal, sender, body: sent }, deps) {
      const values = readQuery(search, names)
      const meta = z.object(whyShape).safeParse({ why: values['why'] })
      if (!meta.success) throw problemOf('query', meta.error.issues, values)
      const rawParam = (name: string) => params.get(name) ?? ''
      const request: OperationRequest<QueryOf<Query>, Body> = {
        param: (name) => decodeParam(name, rawParam(name)),
        rawParam,
        query: parseWith(own, 'query', values) as QueryOf<Query>,
        body: (body === undefined ? undefined : body.read(sent)) as Body,
        ifMatch,
        meta: { by: principal?.name ?? '', why: meta.data.why },
        sender,
      }
      return run(request, deps)
    },
  }
}

/** A body that is checked against its schema. */
export function checkedBody<Schema extends z.ZodType>(
  schema: Schema,
  bytesMax = BODY_BYTES_MAX,
): BodySpec<z.output<Schema>> {
  return {
    kinds: ['json'],
    bytesMax,
    schema,
    read: (sent) => parseWith(schema, 'body', sent),
  }
}

/** A body that its consumer checks, such as the reader of rules; the schema only documents it. */
export function openBody(
  schema: z.ZodType,
  kinds: readonly BodyKind[] = ['json'],
): BodySpec<unknown> {
  return { kinds, bytesMax: BODY_BYTES_MAX, schema, read: (sent) => sent }
}

function parseWith<Schema extends z.ZodType>(
  schema: Schema,
  place: 'body' | 'query',
  sent: unknown,
): z.output<Schema> {
  const parsed = schema.safeParse(sent)
  if (parsed.success) return parsed.data
  throw problemOf(place, parsed.error.issues, sent)
}

type Issue = z.core.$ZodIssue

/** The messages of the schemas say what is accepted; this adds what was found. */
function problemOf(place: string, issues: readonly Issue[], sent: unknown): AdminError {
  const problems = issues.slice(0, PROBLEMS_MAX).map((issue) => describeIssue(place, issue, sent))
  const detail = problems.map(({ message }) => message).join('\n')
  return new AdminError('invalid_request', detail, { problems })
}

const PROBLEMS_MAX = 100

function describeIssue(place: string, issue: Issue, sent: unknown): ReportedProblem {
  const { path } = issue
  const inner = path.map((step) => (typeof step === 'number' ? `[${step}]` : `.${show(step)}`))
  const field = `${place}${inner.join('')}`
  if (issue.code !== 'unrecognized_keys') {
    const found = describe(valueAt(sent, path))
    const accepted = issue.message
    const message = `${field}: found ${found}; accepted: ${accepted}`
    return { code: 'bad-value', field, found, accepted, message }
  }
  const [key = ''] = issue.keys
  const names = acceptedKeys(issue)
  const accepted = names.join(', ')
  const suggestion = nearest(key, names)
  const meant = suggestion === undefined ? '' : `, did you mean "${suggestion}"?`
  const found = `unknown key "${show(key)}"`
  const message = `${field}: found ${found}${meant}; accepted: ${accepted}`
  const near = suggestion === undefined ? {} : { suggestion }
  return { code: 'unknown-key', field, found, accepted, message, ...near }
}

/** `strictObject` lists its keys in the message. */
function acceptedKeys({ message }: Issue): readonly string[] {
  return message.split(', ')
}

function valueAt(sent: unknown, path: readonly PropertyKey[]): unknown {
  let value = sent
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    value = (value as Readonly<Record<PropertyKey, unknown>>)[step]
  }
  return value
}

function describe(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (typeof value === 'string') return `"${show(value)}"`
  return Array.isArray(value) ? 'a list' : show(value)
}

function decodeParam(name: string, segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    throw invalid(name, `"${show(segment)}"`, 'text, percent-encoded')
  }
}

/**
 * The version that the client has read, from `If-Match` or from the body. Undefined: any version.
 */
export function expectedOf(
  ifMatch: ExpectedVersion,
  bodyVersion?: number,
  needed = false,
): number | undefined {
  if (typeof ifMatch === 'number' && bodyVersion !== undefined && ifMatch !== bodyVersion) {
    throw invalid('If-Match', `version ${ifMatch} beside ${bodyVersion} in the body`, 'one version')
  }
  if (ifMatch === 'any') return undefined
  const expected = ifMatch ?? bodyVersion
  if (expected !== undefined || !needed) return expected
  throw new AdminError(
    'precondition_required',
    'If-Match is missing. Send the ETag that was read, such as "12", or * to overwrite whatever is there.',
  )
}
