/** A gRPC client that checks answers, one call after the other. */
import { connect } from 'node:http2'

const CALL_MS_MAX = 10_000

/** Makes `count` calls; fails unless each has status 0 and the wanted kind of answer. */
export async function checkCalls({ name, url, path, request, kindOf, wanted, count }) {
  // Certificates of a benchmark are made for it, by nobody that is trusted.
  const session = connect(url, { rejectUnauthorized: false })
  session.on('error', () => {})
  try {
    let least = Number.POSITIVE_INFINITY
    for (let i = 0; i < count; i++) {
      const { status, message } = await call(session, path, request)
      const kind = status === '0' ? kindOf(message.subarray(5)) : undefined
      if (kind !== wanted) {
        const found = `status ${status}, message ${message.toString('hex')}`
        throw new Error(`${name}: found ${kind ?? 'no answer'}, wanted ${wanted}: ${found}`)
      }
      least = Math.min(least, message.length)
    }
    return least
  } finally {
    session.destroy()
  }
}

/** Whether a call has the wanted kind of answer. */
export async function isAnswering(options) {
  try {
    await checkCalls({ name: 'start', ...options, count: 1 })
    return true
  } catch {
    return false
  }
}

function call(session, path, request) {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
    })
    const parts = []
    let status
    const read = (headers) => (status = headers['grpc-status'] ?? status)
    stream.setTimeout(CALL_MS_MAX, () => stream.destroy(new Error('no answer')))
    stream.on('response', read)
    stream.on('trailers', read)
    stream.on('data', (part) => parts.push(part))
    stream.on('error', reject)
    stream.on('close', () => resolve({ status, message: Buffer.concat(parts) }))
    stream.end(request)
  })
}
