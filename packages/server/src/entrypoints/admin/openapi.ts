/** Builds the OpenAPI 3.1 document from the operations that are served. */
import { errorView, yamlText } from '@sluice/api'
import type { z } from 'zod'
import { schemaOf, type Schemas } from '../http/openapi-schema.js'
import type { Operation } from './operation.js'
import { typesOf } from './read-request.js'
import { COOKIE, CSRF_HEADER } from './sessions.js'

const TAGS: Readonly<Record<string, string>> = {
  Rules: 'Single rules.',
  'Rule sets': 'The set of rules as a whole.',
  Overrides: 'Limits of one caller in place of those of the rule.',
  Candidates: 'Limits that are tried in shadow beside those in force.',
  History: 'Versions and rollback.',
  Keys: 'API keys of callers.',
  Tokens: 'Tokens of the admin API.',
  Nodes: 'The nodes, and the version of the rules on each.',
  Calls: 'Decisions, and the counters behind them.',
  Stats: 'Statistics of all nodes, and what limits would do.',
  Sessions: 'Browser sessions, started with a token.',
  Document: 'This document.',
}

/** The responses by status that every operation, or every one of a kind, may send. */
const PROBLEMS: Readonly<Record<number, string>> = {
  400: 'The request is invalid; `detail` says why.',
  401: 'The token is missing or wrong.',
  403: 'The role of the token is not sufficient, the request is cross-site, or the rules are read-only.',
  404: 'Not found.',
  409: 'The version has changed, it exists already, or a confirmation is missing.',
  413: 'The body is too large.',
  415: 'The body has an unsupported type, or is compressed.',
  428: 'If-Match is missing.',
  429: 'Too many requests, or too many wrong tokens from this address.',
  500: 'Internal error; see the server log.',
  503: 'The rule store does not answer, or too many streams are open.',
}

const SECURITY_SCHEMES = {
  token: {
    type: 'http',
    scheme: 'bearer',
    description: 'The admin token, or a token created with it.',
  },
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: COOKIE,
    description: `A browser session; changes also need the header ${CSRF_HEADER}.`,
  },
}

export function documentOf(operations: readonly Operation[], release: string): object {
  const schemas: Record<string, unknown> = {}
  const paths: Record<string, Record<string, object>> = {}
  for (const operation of operations) {
    const path = (paths[operation.path] ??= {})
    path[operation.method] = describeOperation(operation, schemas)
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluice admin API',
      version: release,
      description: 'Rules, overrides, candidates, keys, tokens, nodes and statistics of Sluice.',
      license: { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ token: [] }, { session: [] }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    components: { securitySchemes: SECURITY_SCHEMES, schemas },
    paths,
  }
}

function describeOperation(operation: Operation, schemas: Schemas): object {
  const { path, id, tag, summary, description, role, body } = operation
  const isOpen = operation.isOpen === true
  const text = description === undefined ? '' : `${description} `
  const parameters = [
    ...pathParameters(path),
    ...queryParameters(operation.query, schemas),
    ...(operation.ifMatch === undefined ? [] : [ifMatchParameter(operation.ifMatch)]),
  ]
  return {
    operationId: id,
    tags: [tag],
    summary,
    description: `${text}Needs ${isOpen ? 'no credentials' : `the role \`${role}\``}.`,
    ...(isOpen && { security: [] }),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && {
      requestBody: { required: true, content: contentOf(body, schemas) },
    }),
    responses: responsesOf(operation, schemas),
  }
}

const PARAMS: Readonly<Record<string, string>> = {
  id: 'The id.',
  caller: 'The caller: `user=u1`, several with a comma between, each value percent-encoded.',
}

function pathParameters(path: string): readonly object[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    description: PARAMS[name] ?? '',
    schema: { type: 'string' },
  }))
}

function queryParameters(query: z.ZodObject, schemas: Schemas): readonly object[] {
  return Object.entries(query.shape).map(([name, schema]) => {
    const { description, ...json }: { description?: unknown } = schemaOf(schema, schemas)
    const described = description === undefined ? {} : { description }
    return { name, in: 'query', required: false, ...described, schema: json }
  })
}

function ifMatchParameter(ifMatch: 'needed' | 'honoured'): object {
  const description =
    ifMatch === 'needed'
      ? 'The version that was read, `"12"`; required unless the body has it. `*` overwrites.'
      : 'The version that was read, `"12"`; 409 if it has changed.'
  return {
    name: 'If-Match',
    in: 'header',
    required: false,
    description,
    schema: { type: 'string' },
  }
}

function contentOf({ kinds, schema }: NonNullable<Operation['body']>, schemas: Schemas) {
  const types = typesOf(kinds)
  return Object.fromEntries(
    types.map((type) => {
      const sent = type === 'application/yaml' ? yamlText : schema
      return [type, { schema: schemaOf(sent, schemas) }]
    }),
  )
}

function responsesOf(operation: Operation, schemas: Schemas): object {
  const successes = operation.answers.map(({ status, description, schema, type, etag }) => {
    const content = { [type ?? 'application/json']: { schema: schemaOf(schema, schemas) } }
    const headers = etag === true ? { headers: { ETag: ETAG } } : {}
    return [String(status), { description, ...headers, content }] as const
  })
  const problem = schemaOf(errorView, schemas)
  const problems = statusesOf(operation).map((status) => {
    const content = { 'application/problem+json': { schema: problem } }
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
