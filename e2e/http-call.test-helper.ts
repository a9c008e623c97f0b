/** HTTP calls from any address of this machine and with any headers. */
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'

export interface CallOptions {
  readonly method?: string
  /** A list sends the header once per item. */
  readonly headers?: Readonly<Record<string, string | number | string[]>>
  /** Sent with its length, or in chunks if it is a list. */
  readonly body?: string | readonly string[]
  /** The address from which it is sent: all of 127.0.0.0/8 is this machine. */
  readonly from: string
}

export interface CallResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** Duration of the call. */
  readonly ms: number
}

/** The target is sent unchanged, including dots and doubled slashes. */
export function call(port: number, target: string, options: CallOptions): Promise<CallResponse> {
  const { method = 'GET', headers = {}, body = '', from } = options
  const startedMs = Date.now()
  return new Promise((resolve, reject) => {
    const outgoing = request({
      host: '127.0.0.1',
      port,
      path: target,
      method,
      headers: typeof body === 'string' ? { ...headers, ...lengthOf(body) } : headers,
      localAddress: from,
      agent: false,
    })
    outgoing.on('error', reject)
    outgoing.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text += chunk
      })
      response.on('error', reject)
      response.on('end', () => {
        const { statusCode: status = 0, headers: responseHeaders } = response
        resolve({ status, headers: responseHeaders, body: text, ms: Date.now() - startedMs })
      })
    })
    if (typeof body !== 'string') for (const chunk of body) outgoing.write(chunk)
    outgoing.end(typeof body === 'string' ? body : undefined)
  })
}

function lengthOf(body: string): OutgoingHttpHeaders {
  return body === '' ? {} : { 'content-length': Buffer.byteLength(body) }
}

let callers = 0

/** An address that has not made a call yet. */
export function newCaller(): string {
  callers++
  return `127.9.${Math.floor(callers / 250)}.${1 + (callers % 250)}`
}
