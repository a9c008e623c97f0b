import { resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parseConfig } from './parse-config.js'

const FILE = '/etc/sluice/sluice.yaml'
type Env = Readonly<Record<string, string>>

function parse(text: string | undefined, env: Env = {}) {
  return parseConfig(text, { file: FILE, env, readFile: () => '' })
}

function databaseOf(text: string | undefined, env: Env = {}) {
  const { config, errors } = parse(text, env)
  if (config === undefined) throw new Error(errors.map(({ message }) => message).join('\n'))
  return config.database
}

const messagesOf = (text: string | undefined, env: Env = {}) =>
  parse(text, env).errors.map(({ message }) => message)

describe('the rule store', () => {
  test('is files if there is no URL', () => {
    expect(databaseOf(undefined)).toBeUndefined()
    expect(databaseOf('database: {}')).toBeUndefined()
  })

  test('is Postgres if there is a URL alone', () => {
    const url = 'postgres://10.0.0.1/sluice'
    expect(databaseOf(`database: { url: "${url}" }`)).toEqual({ url, tls: undefined })
    expect(databaseOf(undefined, { SLUICE_DATABASE_URL: url })).toEqual({ url, tls: undefined })
  })

  test('is what the environment sets rather than the file, whose mistakes are still reported', () => {
    const env = { SLUICE_DATABASE_URL: 'postgres://b/a' }
    expect(databaseOf('database: { url: "postgres://a/a" }', env)?.url).toBe('postgres://b/a')
    expect(messagesOf('database: { url: 7 }', env)).toHaveLength(1)
  })

  test('has a problem if other settings of Postgres are there but no URL', () => {
    expect(messagesOf('database: { tls: {} }')[0]).toContain('database.url: missing')
  })

  test.each([
    [
      'rules: a.yaml',
      { SLUICE_DATABASE_URL: 'postgres://b/a' },
      'SLUICE_DATABASE_URL: bad value beside rules',
    ],
    [
      'database: { url: "postgres://b/a" }',
      { SLUICE_RULES: 'a' },
      'database.url: bad value beside SLUICE_RULES',
    ],
    [
      'rules: a.yaml\ndatabase: { url: "postgres://b/a" }',
      {},
      'database.url: bad value beside rules',
    ],
  ])('cannot be two places: %j with %j', (text, env: Env, message) => {
    expect(messagesOf(text, env)).toEqual([expect.stringContaining(message)])
  })
})

describe('TLS to Postgres', () => {
  test('resolves file names of the file and of its URL against the folder of the configuration', () => {
    const url = 'postgres://a/b?sslrootcert=ca.pem&sslcert=/x/cert.pem'
    expect(databaseOf(`database: { url: "${url}", tls: { key: key.pem } }`)?.tls).toEqual({
      ca: '/etc/sluice/ca.pem',
      cert: '/x/cert.pem',
      key: '/etc/sluice/key.pem',
      servername: undefined,
    })
  })

  test('resolves file names in the URL of a variable against the working directory', () => {
    const env = { SLUICE_DATABASE_URL: 'postgres://a/b?sslrootcert=ca.pem' }
    expect(databaseOf(undefined, env)?.tls?.ca).toBe(resolve('ca.pem'))
  })

  test.each([
    [
      '{ url: "postgres://localhost/a", tls: { ca: a } }',
      'database.tls: bad value beside a URL without TLS',
    ],
    ['{ url: "postgres://a/a?sslmode=disable", tls: { ca: a } }', 'beside a URL without TLS'],
    [
      '{ url: "postgres://a/a?sslrootcert=b", tls: { ca: a } }',
      'database.tls.ca: bad value beside sslrootcert in the URL',
    ],
    ['{ url: "postgres://a/a", tls: { cert: a } }', 'database.tls.key: missing'],
    ['{ url: "postgres://a/a?sslkey=b", tls: { ca: a } }', 'database.tls.cert: missing'],
    ['{ url: "postgres://a/a?sslkey=b" }', 'database.url: bad value with sslkey and no sslcert'],
  ])('%s is refused', (database, message) => {
    expect(messagesOf(`database: ${database}`)).toEqual([expect.stringContaining(message)])
  })
})
