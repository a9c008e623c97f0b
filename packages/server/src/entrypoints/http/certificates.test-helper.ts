/** Real certificates, and the one that a server presents. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { findService } from '../../../../../tools/services.mjs'

export interface MadePair {
  readonly cert: string
  readonly key: string
}

/** A certificate for this name and its key, as text. */
export function makePair(directory: string, name: string): MadePair {
  const cert = join(directory, `${name}.made-cert`)
  const key = join(directory, `${name}.made-key`)
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const files = ['-keyout', key, '-out', cert]
  execFileSync(
    findService('openssl'),
    ['req', '-x509', ...curve, ...files, '-subj', `/CN=${name}`, '-days', '2'],
    { stdio: 'ignore' },
  )
  return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
}

/** The same key with a passphrase. */
export function encrypt(directory: string, key: string): string {
  const plain = join(directory, 'plain-key')
  writeFileSync(plain, key)
  const args = ['pkcs8', '-topk8', '-in', plain, '-passout', 'pass:1234']
  return execFileSync(findService('openssl'), args, { encoding: 'utf8' })
}

/** The name in the certificate that a server presents to a new connection. */
export async function shownName(port: number): Promise<string> {
  const socket = await connectTls(port)
  const { CN } = socket.getPeerCertificate().subject
  socket.destroy()
  return String(CN)
}

export function connectTls(port: number, ALPNProtocols?: string[]): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect(
      {
        port,
        host: '127.0.0.1',
        // It is self-signed; the tests check only what is presented.
        rejectUnauthorized: false,
        ...(ALPNProtocols && { ALPNProtocols }),
      },
      () => resolve(socket),
    )
    socket.once('error', reject)
  })
}
