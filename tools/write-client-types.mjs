/**
 * Writes packages/client/dist/api-types.d.ts: the types of the APIs as plain interfaces.
 *
 * The types follow from the zod schemas of packages/api. Users of @sluice/client need none of
 * that: the file that tsc wrote imports @sluice/api, and is replaced by this one. A schema that is
 * exported as `ruleView` becomes the type `RuleView`; its descriptions become doc comments.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { writeIfChanged } from './write-if-changed.mjs'

const DIST = fileURLToPath(new URL('../packages/client/dist', import.meta.url))
const API = new URL('../packages/api/dist/index.js', import.meta.url)

const isSchema = (value) => typeof value === 'object' && value !== null && '_zod' in value
const typeName = (name) => name[0].toUpperCase() + name.slice(1)
/** Clients may pass undefined for what they leave out; the server never sends it. */
const isInput = (name) => /(Input|Patch|Call)$/.test(name)

/** @param {Readonly<Record<string, unknown>>} api @returns {string} */
export function clientTypes(api) {
  const schemas = Object.entries(api).filter(([, value]) => isSchema(value))
  const names = new Map(schemas.map(([name, schema]) => [schema, typeName(name)]))
  const declarations = schemas.map(([name, schema]) => {
    const type = typeOf(schema, { names, root: schema, isInput: isInput(name), indent: '' })
    const comment = commentOf(schema, '')
    return `${comment}export type ${typeName(name)} = ${type}\n`
  })
  return `/** The types of the admin and the decision API, written from the schemas of packages/api. */\n${declarations.join('\n')}`
}

function commentOf(schema, indent) {
  const { description } = schema.meta() ?? {}
  return description === undefined ? '' : `${indent}/** ${description} */\n`
}

const WRITERS = {
  string: () => 'string',
  number: () => 'number',
  boolean: () => 'boolean',
  null: () => 'null',
  unknown: () => 'unknown',
  enum: ({ entries }) => Object.values(entries).map(quote).join(' | '),
  literal: ({ values }) => values.map(quote).join(' | '),
  array: ({ element }, context) => `readonly ${inBrackets(typeOf(element, context))}[]`,
  record: ({ valueType }, context) => `{ readonly [key: string]: ${typeOf(valueType, context)} }`,
  union: ({ options }, context) => options.map((each) => typeOf(each, context)).join(' | '),
  nullable: ({ innerType }, context) => `${typeOf(innerType, context)} | null`,
  optional: ({ innerType }, context) => typeOf(innerType, context),
  object: objectOf,
}

function typeOf(schema, context) {
  const name = context.names.get(schema)
  if (name !== undefined && schema !== context.root) return name
  const { def } = schema._zod
  const write = WRITERS[def.type]
  if (write === undefined) throw new Error(`write-client-types.mjs: add the zod type ${def.type}`)
  return write(def, context)
}

function objectOf({ shape, catchall }, context) {
  const indent = `${context.indent}  `
  const fields = Object.entries(shape).map(([key, schema]) => {
    const isOptional = schema._zod.def.type === 'optional'
    const type = typeOf(schema, { ...context, indent })
    const mark = isOptional ? '?' : ''
    const absent = isOptional && context.isInput ? ' | undefined' : ''
    return `${commentOf(schema, indent)}${indent}readonly ${keyOf(key)}${mark}: ${type}${absent}\n`
  })
  // A loose object may have any other field; a strict one has none, which a type need not say.
  if (catchall?._zod.def.type === 'unknown') {
    fields.push(`${indent}readonly [field: string]: unknown\n`)
  }
  return `{\n${fields.join('')}${context.indent}}`
}

const keyOf = (key) => (/^\w+$/.test(key) ? key : quote(key))
const quote = (value) => (typeof value === 'string' ? `'${value}'` : String(value))
const inBrackets = (type) => (/[|]/.test(type) && !type.startsWith('{') ? `(${type})` : type)

async function main() {
  for (const entry of readdirSync(DIST, { recursive: true })) {
    if (!entry.endsWith('.d.ts')) continue
    const own = entry.includes(sep) ? '"../api-types.js"' : '"./api-types.js"'
    const path = join(DIST, entry)
    // Inferred types name the package of their schema.
    writeIfChanged(path, readFileSync(path, 'utf8').replaceAll('"@sluice/api"', own))
  }
  writeIfChanged(join(DIST, 'api-types.d.ts'), clientTypes(await import(API.href)))
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main()
