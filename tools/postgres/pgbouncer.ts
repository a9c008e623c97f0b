/** A real PgBouncer in front of a test Postgres. */
import { execFileSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../ports.mjs'
import { findService } from '../services.mjs'
import { makeOwnFolder, ServerProcess } from './server-process.js'
import type { PostgresServer } from './server.js'

const HOST = '127.0.0.1'

export interface PgBouncer {
  readonly port: number
  /** The URL of the same database through PgBouncer. */
  urlOf(url: string): string
  stop(): Promise<void>
}

/** By default a client has a server connection for one transaction, without session state. */
export async function startPgBouncer(
  postgres: Pick<PostgresServer, 'port'>,
  poolMode: 'transaction' | 'session' = 'transaction',
): Promise<PgBouncer> {
  const port = await freePort()
  const folder = makeOwnFolder()
  const users = join(folder, 'users.txt')
  const config = join(folder, 'pgbouncer.ini')
  writeFileSync(users, '"postgres" ""\n', { mode: 0o644 })
  const lines = [
    '[databases]',
    `* = host=${HOST} port=${postgres.port}`,
    '[pgbouncer]',
    `listen_addr = ${HOST}`,
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = trust',
    `auth_file = ${users}`,
    `pool_mode = ${poolMode}`,
    'default_pool_size = 10',
    '',
  ]
  writeFileSync(config, lines.join('\n'), { mode: 0o644 })
  const answers = () => {
    try {
      const url = `postgres://postgres@${HOST}:${port}/postgres`
      execFileSync(findService('psql'), ['-XAtq', '-d', url, '-c', 'select 1'], { stdio: 'ignore' })
      return true
    } catch {
      return false
    }
  }
  const bouncer = new ServerProcess({
    command: findService('pgbouncer'),
    args: [config],
    folder,
    answers,
  })
  await bouncer.start()
  return {
    port,
    urlOf(url) {
      const through = new URL(url)
      through.port = String(port)
      return through.href
    },
    async stop() {
      await bouncer.end('SIGTERM')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
