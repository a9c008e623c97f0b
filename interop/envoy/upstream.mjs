/** An upstream that answers 200 with its cost in tokens; /slow answers a second later. */
import { createServer } from 'node:http'

const SLOW_MS = 1_000

export async function startUpstream() {
  const server = createServer((request, response) => {
    const answer = () => {
      response.setHeader('x-tokens', '120')
      response.end('served\n')
    }
    if (request.url !== '/slow') return answer()
    const timer = setTimeout(answer, SLOW_MS)
    response.once('close', () => clearTimeout(timer))
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: server.address().port,
    stop: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
