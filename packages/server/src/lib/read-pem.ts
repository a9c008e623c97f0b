/** Reads the certificate files of a connection to Redis, Postgres or a control plane. */
import { createSecureContext } from 'node:tls'
import type { ClientTlsFiles } from '../config/config.js'
import { messageOf } from './message-of.js'
import { readWholeFile } from '@sluice/limiter/internal'

export interface Pem {
  readonly ca: string | undefined
  readonly cert: string | undefined
  readonly key: string | undefined
}

/** Rejects with a message that names what cannot be read or used. */
export async function readPem(files: Omit<ClientTlsFiles, 'servername'>): Promise<Pem> {
  const read = async (file: string | undefined) =>
    file === undefined ? undefined : (await readWholeFile(file)).text
  const pem = {
    ca: await read(files.ca),
    cert: await read(files.cert),
    key: await read(files.key),
  }
  try {
    createSecureContext(pem)
  } catch (cause) {
    const names = [files.ca, files.cert, files.key].filter((name) => name !== undefined).join(', ')
    throw new Error(`${names}: found ${messageOf(cause)}; accepted: PEM files that fit together`, {
      cause,
    })
  }
  return pem
}
