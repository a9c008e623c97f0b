/** Reloads the certificate of a server when its files change, without a restart. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext, type Server as TlsServer } from 'node:tls'
import type { ServerTlsFiles } from '../../config/config.js'
import { readWholeFile } from '@sluice/limiter/internal'
import { watchFile } from '@sluice/limiter/internal'
import type { Log } from '../../observability/log/logger.js'

export interface Certificates {
  close(): void
}

export interface CertificateOptions {
  /** How often the files are polled, beside the events of their directory. @default 1000 */
  readonly pollMs?: number | undefined
}

interface CertificatePair {
  readonly cert: string
  readonly key: string
  /** The authorities of client certificates; undefined: clients need none. */
  readonly ca: string | undefined
  /** When the certificate expires. */
  readonly until: string
}

const TLS_MIN = 'TLSv1.2'

/**
 * Sets the certificate of the server, and replaces it when both files match again after a change.
 * Rejects if the first pair does not match; a later pair that does not match is logged and ignored.
 */
export async function watchCertificates(
  server: Pick<TlsServer, 'setSecureContext'>,
  files: ServerTlsFiles,
  log: Log,
  { pollMs }: CertificateOptions = {},
): Promise<Certificates> {
  let inUse = await readCertificatePair(files)
  const use = ({ cert, key, ca }: CertificatePair) => {
    server.setSecureContext({ cert, key, ...(ca !== undefined && { ca }), minVersion: TLS_MIN })
  }
  use(inUse)

  const refuse = (error: unknown) => {
    const { message } = error instanceof Error ? error : new Error(String(error))
    log.error({ problem: message }, 'certificate rejected; the active one stays')
  }
  const renew = async () => {
    // Both files are read whichever changed, since usually both change.
    const pair = await readCertificatePair(files)
    if (pair.cert === inUse.cert && pair.key === inUse.key && pair.ca === inUse.ca) return
    use(pair)
    inUse = pair
    log.info({ file: files.cert, until: pair.until }, 'certificate changed')
  }
  let last = Promise.resolve()
  const renewNext = () => {
    last = last.then(renew).catch(refuse)
  }
  const watch = (file: string, known: string) =>
    watchFile(file, renewNext, { known, onError: refuse, pollMs })
  const watched = [watch(files.cert, inUse.cert), watch(files.key, inUse.key)]
  if (files.clientCa !== undefined) watched.push(watch(files.clientCa, inUse.ca ?? ''))
  return {
    close: () => {
      for (const file of watched) file.close()
    },
  }
}

/** Rejects if the files are missing or do not match; the message names the file. */
export async function readCertificatePair(files: ServerTlsFiles): Promise<CertificatePair> {
  const { text: cert } = await readWholeFile(files.cert)
  const { text: key } = await readWholeFile(files.key)
  const certificate = attempt(
    () => new X509Certificate(cert),
    `${files.cert}: found no certificate; accepted: PEM, the server's own first`,
  )
  const privateKey = attempt(
    () => createPrivateKey(key),
    `${files.key}: found no private key; accepted: PEM, without a passphrase`,
  )
  if (!certificate.checkPrivateKey(privateKey)) {
    throw new Error(`${files.key}: the key is not that of the certificate in ${files.cert}`)
  }
  attempt(
    () => createSecureContext({ cert, key, minVersion: TLS_MIN }),
    `${files.cert}: this certificate or one behind it cannot be used`,
  )
  const ca = files.clientCa === undefined ? undefined : await readAuthorities(files.clientCa)
  return { cert, key, ca, until: certificate.validTo }
}

/** Fails for a file without a certificate, with which no client could connect. */
async function readAuthorities(file: string): Promise<string> {
  const { text } = await readWholeFile(file)
  const accepted = 'accepted: PEM, the certificates of the authorities that sign those of clients'
  attempt(() => new X509Certificate(text), `${file}: found no certificate; ${accepted}`)
  return text
}

function attempt<Result>(make: () => Result, message: string): Result {
  try {
    return make()
  } catch (cause) {
    throw new Error(message, { cause })
  }
}
