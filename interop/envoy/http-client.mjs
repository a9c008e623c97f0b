/** Requests over connections that stay open, some at once. */
import { Agent, request } from 'node:http'

const REQUEST_MS_MAX = 20_000

export function createClient(port, connections = 1) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  return {
    close: () => agent.destroy(),
    get: (path, headers = {}, signal = AbortSignal.timeout(REQUEST_MS_MAX)) =>
      new Promise((resolve, reject) => {
        const options = { host: '127.0.0.1', port, path, headers, agent, signal }
        const sent = request(options, (response) => {
          let body = ''
          response.setEncoding('utf8')
          response.on('data', (chunk) => {
            body += chunk
          })
          response.on('end', () =>
            resolve({ status: response.statusCode, headers: response.headers, body }),
          )
          response.on('error', reject)
        })
        sent.on('error', reject)
        sent.end()
      }),
  }
}

/** How many of `count` requests got each status. */
export async function countStatuses(port, path, count, atOnce) {
  const client = createClient(port, atOnce)
  const statuses = {}
  let left = count
  const worker = async () => {
    while (left > 0) {
      left -= 1
      const { status } = await client.get(path).catch((error) => ({ status: error.message }))
      statuses[status] = (statuses[status] ?? 0) + 1
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  client.close()
  return statuses
}
