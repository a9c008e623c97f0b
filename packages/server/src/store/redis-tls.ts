/** The certificates of a connection to Redis, read from their files. */
import { createSecureContext } from 'node:tls'
import type { RedisTls } from '@sluice/limiter/redis'
import type { RedisTlsFiles } from '../config/config.js'
import { readWhole } from '../files/read-whole.js'
import { messageOf } from '../message-of.js'

/** Rejects with a message that names what cannot be read or used. */
export async function readRedisTls(files: RedisTlsFiles): Promise<RedisTls> {
  const read = async (file: string | undefined) =>
    file === undefined ? undefined : (await readWhole(file)).text
  const ca = await read(files.ca)
  const cert = await read(files.cert)
  const key = await read(files.key)
  try {
    createSecureContext({ ca, cert, key })
  } catch (cause) {
    const names = [files.ca, files.cert, files.key].filter((name) => name !== undefined).join(', ')
    throw new Error(`${names}: found ${messageOf(cause)}; accepted: PEM files that fit together`, {
      cause,
    })
  }
  return { ca, cert, key, servername: files.servername }
}
