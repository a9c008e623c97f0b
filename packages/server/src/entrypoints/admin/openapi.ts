/** The OpenAPI 3.1 document, made of the operations that are served. */
import { type OpenAPIHono, type RouteConfig, z } from '@hono/zod-openapi'
import type { Operation } from './operation.js'
import { typesOf } from './read-request.js'
import { errorView, yamlText } from './schemas.js'
import { COOKIE, CSRF_HEADER } from './sessions.js'

type Registry = OpenAPIHono['openAPIRegistry']
type Responses = RouteConfig['responses']

const TAGS: Readonly<Record<string, string>> = {
  Rules: 'Rules one by one.',
  'Rule sets': 'The set of rules as a whole.',
  Overrides: 'Limits of one caller of one rule.',
  Candidates: 'Limits that are tried in shadow.',
  History: 'Versions, and the way back.',
  Keys: 'Known keys of callers.',
  Tokens: 'Tokens of the admin API itself.',
  Nodes: 'The processes that decide, and what they run.',
  Calls: 'Decisions, and the counters behind them.',
  Figures: 'What nodes see, and what limits would do.',
  Sessions: 'Browsers that were let in with a token.',
  Document: 'This document.',
}

/** By status: what every operation, or every one of a kind, may answer. */
const PROBLEMS: Readonly<Record<number, string>> = {
  400: 'What was sent is not accepted; the detail says what is.',
  401: 'No token, or a wrong one.',
  403: 'The role of the token is not enough, a web page asked, or rules are read-only here.',
  404: 'There is no such thing.',
  409: 'Somebody was faster, it exists already, or a confirmation is missing.',
  413: 'The body has too many bytes.',
  415: 'The body is of another type, or compressed.',
  428: 'If-Match is missing.',
  429: 'Too many calls, or too many wrong tokens from this address.',
  500: 'A fault of Sluice; its log has it.',
  503: 'The rule store does not answer, or too many streams are open.',
}

export function register(registry: Registry, operations: readonly Operation[]): void {
  registry.registerComponent('securitySchemes', 'token', {
    type: 'http',
    scheme: 'bearer',
    description: 'The admin token, or one that was made with it.',
  })
  registry.registerComponent('securitySchemes', 'session', {
    type: 'apiKey',
    in: 'cookie',
    name: COOKIE,
    description: `A session; changes also need the header ${CSRF_HEADER}.`,
  })
  registry.register('Problem', errorView)
  for (const operation of operations) registry.registerPath(routeOf(operation))
}

/** Of the app that the operations were registered with. */
type DocumentedApp = Pick<OpenAPIHono, 'getOpenAPI31Document'>

export function documentOf(app: DocumentedApp, release: string): object {
  return app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'Sluice admin API',
      version: release,
      description: 'Rules, overrides, candidates, keys, tokens, nodes and figures of Sluice.',
      license: { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ token: [] }, { session: [] }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
  })
}

function routeOf(operation: Operation): RouteConfig {
  const { method, path, id, tag, summary, description, role, body } = operation
  const isOpen = operation.isOpen === true
  const text = description === undefined ? '' : `${description} `
  return {
    method,
    path,
    operationId: id,
    tags: [tag],
    summary,
    description: `${text}Needs ${isOpen ? 'no credentials' : `the role \`${role}\``}.`,
    ...(isOpen && { security: [] }),
    request: {
      params: paramsOf(path),
      query: operation.query,
      ...(operation.ifMatch !== undefined && { headers: headersOf(operation.ifMatch) }),
      ...(body !== undefined && { body: { required: true, content: contentOf(body) } }),
    },
    responses: responsesOf(operation),
  }
}

const PARAMS: Readonly<Record<string, string>> = {
  id: 'The id.',
  caller: 'The caller: `user=u1`, several with a comma between, each value percent-encoded.',
}

function paramsOf(path: string) {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
  const described = names.map((name) => [
    name,
    z.string().openapi({ description: PARAMS[name] ?? '' }),
  ])
  return z.object(Object.fromEntries(described) as Readonly<Record<string, z.ZodString>>)
}

function headersOf(ifMatch: 'needed' | 'honoured') {
  const text =
    ifMatch === 'needed'
      ? 'The version that was read, `"12"`; needed unless the body has it. `*` overwrites.'
      : 'The version that was read, `"12"`; another one by now is 409.'
  return z.object({ 'If-Match': z.string().optional().openapi({ description: text }) })
}

function contentOf({ kinds, schema }: NonNullable<Operation['body']>) {
  const types = typesOf(kinds)
  return Object.fromEntries(
    types.map((type) => [type, { schema: type === 'application/yaml' ? yamlText : schema }]),
  )
}

function responsesOf(operation: Operation): Responses {
  const successes = operation.answers.map(({ status, description, schema, type, etag }) => {
    const content = { [type ?? 'application/json']: { schema } }
    const headers = etag === true ? { ETag: ETAG } : {}
    return [String(status), { description, content, headers }] as const
  })
  const problems = statusesOf(operation).map((status) => {
    const content = { 'application/problem+json': { schema: errorView } }
    return [String(status), { description: PROBLEMS[status] ?? '', content }] as const
  })
  return Object.fromEntries([...successes, ...problems])
}

const ETAG = {
  description: 'The version, for If-Match.',
  schema: { type: 'string', examples: ['"12"'] },
} as const

function statusesOf({ path, writes, ifMatch, body }: Operation): readonly number[] {
  return [
    400,
    401,
    403,
    ...(path.includes('{') ? [404] : []),
    ...(writes === true ? [409] : []),
    ...(body === undefined ? [] : [413, 415]),
    ...(ifMatch === 'needed' ? [428] : []),
    429,
    500,
    503,
  ]
}
