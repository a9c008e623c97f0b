/** An upstream that answers 200 with its cost in tokens, and /slow never. */
import { createServer } from 'node:http'

export async function startUpstream() {
  const upstream = { onSlow: () => {} }
  const server = createServer((request, response) => {
    if (request.url === '/slow') return upstream.onSlow()
    response.setHeader('x-tokens', '120')
    response.end('served\n')
  })
  // A connection that closes while Envoy sends a request on it would be a 503.
  server.keepAliveTimeout = 0
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return Object.assign(upstream, {
    port: server.address().port,
    stop: () => {
      server.close()
      server.closeAllConnections()
    },
  })
}
