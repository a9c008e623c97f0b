/** Compares the documentation of the API with what it serves. */
import { readFileSync } from 'node:fs'
import {
  callInput,
  cancelInput,
  checkInput,
  decisionSource,
  decisionView,
  explainedView,
  extendInput,
  healthView,
  peekInput,
  problemDetails,
  readinessView,
  receiptInput,
  refundedView,
  refusalView,
  reserveInput,
  resetInput,
  resetView,
  settleInput,
  settlementView,
} from '@sluice/api'
import { parseData } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { schemaOf, type Schemas } from '../http/openapi-schema.js'
import { closeAfterTests, startApi } from './decision-api.test-helper.js'
import {
  CROSS_SITE,
  UNSUPPORTED_ENCODING,
  needsAdmin,
  TOO_LARGE,
  UNAUTHORIZED,
} from './api-problems.js'
import { ROUTES } from './routes.js'

closeAfterTests()

const readDoc = (name: string) =>
  readFileSync(new URL(`../../../../../docs/reference/${name}`, import.meta.url), 'utf8')
/** Removes quotes: YAML has two kinds, which mean the same. */
const openapi = readDoc('openapi.yaml').replaceAll('"', "'")
const page = readDoc('decision-api.md')
const [, served = ''] = /^paths:\n((?: .*\n)+)/m.exec(openapi) ?? []

/** The text below a path, up to the next one. */
function sectionOf(path: string): string {
  const [, rest = ''] = `\n${served}`.split(`\n  ${path}:\n`)
  return rest.split(/^ {2}\//m)[0] ?? ''
}

/** Every schema that the paths refer to; those inside them follow. */
const SCHEMAS = [
  callInput,
  checkInput,
  peekInput,
  resetInput,
  receiptInput,
  reserveInput,
  settleInput,
  extendInput,
  cancelInput,
  settlementView,
  decisionView,
  explainedView,
  refundedView,
  resetView,
  healthView,
  readinessView,
  problemDetails,
  refusalView,
]

describe('openapi.yaml', () => {
  test('has the schemas of @sluice/api', () => {
    const { value, problems } = parseData(readDoc('openapi.yaml'))
    expect(problems).toEqual([])
    const { components } = value as { readonly components: { readonly schemas: Schemas } }
    const schemas: Schemas = {}
    schemaOf(z.union(SCHEMAS), schemas)
    expect(components.schemas).toEqual(schemas)
  })

  test('has every path that is served, and no other', () => {
    const paths = [...served.matchAll(/^ {2}(\/\S+):$/gm)].map(([, path = '']) => path)
    const all = [...ROUTES.map(({ path }) => path), '/v1/forward-auth/{path}']
    expect(paths.toSorted()).toEqual(all.toSorted())
  })

  test.each(ROUTES)('has the methods of $path', ({ path, methods }) => {
    const written = [...sectionOf(path).matchAll(/^ {4}([a-z]+):/gm)].map(([, method]) => method)
    const any = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options']
    const expected = methods.length === 0 ? any : methods.map((method) => method.toLowerCase())
    expect(written.filter((key) => key !== 'parameters')).toEqual(expected)
  })

  test('allows a refusal of forward-auth to be one of the call, or of the identity', () => {
    const [, refused = ''] = sectionOf('/v1/forward-auth').split("        '429':\n")
    const schema = refused.split('        default:')[0]
    expect(schema).toMatch(/anyOf:\n +- .*schemas\/Refusal'\n +- .*schemas\/ProblemDetails'/)
  })

  test('has no broken reference', () => {
    const [, components = ''] = openapi.split('\ncomponents:\n')
    for (const [, kind = '', name = ''] of openapi.matchAll(/'#\/components\/(\w+)\/([\w-]+)'/g)) {
      const [, section = ''] = components.split(new RegExp(`^  ${kind}:\n`, 'm'))
      expect(section.split(/^ {2}\w/m)[0]).toMatch(new RegExp(`^    ${name}:`, 'm'))
    }
  })
})

describe('decision-api.md', () => {
  test.each(decisionSource.options)(
    'describes the source %s: who decided, its age and what is left',
    (source) => {
      expect(page).toMatch(new RegExp(`^\\| \`${source}\` +(?:\\| [^|]+ ){3}\\|$`, 'm'))
    },
  )

  test.each(['unverified_token', 'token_failures'])(
    'describes the error %s of forward-auth',
    (word) => {
      expect(page).toMatch(new RegExp(`^\\| \`${word}\` +\\| 429 or 403 +\\| .*forward-auth`, 'm'))
    },
  )

  test.each(ROUTES)('describes $path', ({ path }) => {
    expect(page).toContain(`${path}\``)
  })

  test('has a line for every error that is no code of errors.md', async () => {
    const api = await startApi()
    const answers = [
      await api.send('/x'),
      await api.send('/v1/check'),
      await api.send('/v1/forward-auth'),
    ]
    const problems = answers.map(({ body }) => body as { status: number; error: string })
    const all = [
      UNAUTHORIZED,
      CROSS_SITE,
      UNSUPPORTED_ENCODING,
      TOO_LARGE,
      needsAdmin('x', 'api'),
      ...problems,
    ]
    for (const { error, status } of all) {
      expect(page).toMatch(new RegExp(`^\\| \`${error}\` +\\| ${status} `, 'm'))
    }
  })
})
