/** Finds the admin API for the `sluice` command, from the environment; loads no server code. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { ADMIN_TOKEN_FILE } from './startup/stored-secrets.js'
import { messageOf } from './lib/message-of.js'

export interface FindAdminOptions {
  readonly url?: string | undefined
  readonly token?: string | undefined
  readonly tokenFile?: string | undefined
}

/** The default address of the admin API. */
export const ADMIN_URL = 'http://127.0.0.1:9090'

/**
 * The address and token of the admin API: those given to the `sluice` command, else those of a
 * server that was started in this directory. Throws if a named file cannot be read.
 */
export function findAdmin(options: FindAdminOptions): {
  readonly url: string
  /** Undefined: there is none. */
  readonly token: string | undefined
  /** Where the token comes from, or was searched, for messages. */
  readonly tried: string
} {
  const { env } = process
  const url = options.url ?? (env['SLUICE_ADMIN_URL'] || ADMIN_URL)
  if (options.token !== undefined) return { url, token: options.token, tried: 'as given' }
  if (options.tokenFile !== undefined) {
    const token = readFileSync(options.tokenFile, 'utf8').trim()
    return { url, token, tried: options.tokenFile }
  }
  const given = env['SLUICE_ADMIN_TOKEN']
  if (given) return { url, token: given, tried: 'SLUICE_ADMIN_TOKEN' }
  const file = join(env['SLUICE_DATA_DIR'] || '.sluice', ADMIN_TOKEN_FILE)
  try {
    return { url, token: readFileSync(file, 'utf8').trim(), tried: file }
  } catch (error) {
    const tried = `SLUICE_ADMIN_TOKEN is not set, and ${messageOf(error)}`
    return { url, token: undefined, tried }
  }
}
