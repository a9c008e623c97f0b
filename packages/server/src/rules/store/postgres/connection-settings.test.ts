/** TLS to a real Postgres: which certificates are accepted. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../../../../../tools/postgres/server.js'
import { findService } from '../../../../../../tools/services.mjs'
import type { DatabaseConfig } from '../../../config/config.js'
import { prepareConnection } from './connection-settings.js'
import { START_MS_MAX } from './postgres.test-helper.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-tls-'))
const fileOf = (name: string) => join(folder, name)
let server: PostgresServer

function makeCertificate(name: string, subject: string): void {
  const args = ['req', '-x509', '-newkey', 'ec', '-nodes', '-days', '2']
  const curve = ['-pkeyopt', 'ec_paramgen_curve:prime256v1']
  const files = ['-keyout', fileOf(`${name}.key`), '-out', fileOf(`${name}.pem`)]
  const about = ['-subj', `/CN=${subject}`, '-addext', `subjectAltName=DNS:${subject}`]
  execFileSync(findService('openssl'), [...args, ...curve, ...files, ...about], { stdio: 'ignore' })
}

beforeAll(async () => {
  makeCertificate('server', 'db.example')
  makeCertificate('other', 'db.example')
  server = await startPostgres({
    files: {
      'server.pem': readFileSync(fileOf('server.pem'), 'utf8'),
      'server.key': readFileSync(fileOf('server.key'), 'utf8'),
    },
    config: ['ssl=on', 'ssl_cert_file=../server.pem', 'ssl_key_file=../server.key'],
  })
}, START_MS_MAX)
afterAll(async () => {
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** Whether the connection uses TLS. */
async function query(
  parameters: string,
  files: Partial<NonNullable<DatabaseConfig['tls']>> = {},
): Promise<boolean> {
  const tls = { ca: undefined, cert: undefined, key: undefined, servername: undefined, ...files }
  const url = `${server.url}${parameters}`
  const client = new Client((await prepareConnection({ url, tls })).options)
  try {
    await client.connect()
    const { rows } = await client.query('select ssl from pg_stat_ssl where pid = pg_backend_pid()')
    return rows[0].ssl
  } finally {
    await client.end()
  }
}

const [ca, otherCa] = [fileOf('server.pem'), fileOf('other.pem')]

describe('TLS', () => {
  test('TLS is optional on loopback', async () => {
    expect(await query('')).toBe(false)
    expect(await query('?sslmode=verify-ca', { ca })).toBe(true)
    expect(await query('?sslmode=verify-full', { ca, servername: 'db.example' })).toBe(true)
  })

  test.each([
    ['of an unknown authority', '?sslmode=require', {}, /self-signed certificate/],
    ['of another authority', '?sslmode=verify-ca', { ca: otherCa }, /certificate/],
    [
      'of another name',
      '?sslmode=verify-full',
      { ca },
      /IP: 127\.0\.0\.1 is not in the cert's list/,
    ],
    [
      'of another name',
      '?sslmode=require',
      { ca, servername: 'x.example' },
      /x\.example\. is not in/,
    ],
  ])('a connection with a certificate %s is refused: %s', async (_, parameters, files, message) => {
    await expect(query(parameters, files)).rejects.toThrow(message)
  })

  test('unusable TLS files are refused before anything is sent', async () => {
    const files = { cert: fileOf('server.pem'), key: fileOf('other.key') }
    await expect(query('?sslmode=require', files)).rejects.toThrow(
      /server\.pem, .*other\.key: found .*; accepted: PEM files that fit together/,
    )
    await expect(query('?sslmode=require', { ca: fileOf('none.pem') })).rejects.toThrow(
      'none.pem: there is no such file',
    )
  })
})

test('Postgres can be reached through a Unix socket', async () => {
  const url = `postgres://postgres@/postgres?host=${server.socketFolder}&port=${server.port}`
  const { name, options } = await prepareConnection({ url, tls: undefined })
  const client = new Client(options)
  await client.connect()
  expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  await client.end()
  expect(name).toBe(`postgres ${server.socketFolder}/.s.PGSQL.${server.port}/postgres`)
})
