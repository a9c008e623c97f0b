/** The upstream of every subject: a fixed answer of some 230 bytes over keep-alive connections. */
import { createServer } from 'node:http'
import { listen } from './listen.mjs'

const order = {
  id: 42,
  status: 'shipped',
  customer: 'user-17',
  currency: 'EUR',
  total: 129.9,
  items: [
    { sku: 'A-1001', name: 'Valve, brass, 15 mm', count: 2 },
    { sku: 'B-2044', name: 'Seal ring, 15 mm', count: 8 },
  ],
  placed: '2025-01-01T10:00:00Z',
}
const body = Buffer.from(JSON.stringify(order))
const headers = { 'content-type': 'application/json', 'content-length': body.length }

listen(
  createServer((_request, response) => {
    response.writeHead(200, headers)
    response.end(body)
  }),
)
