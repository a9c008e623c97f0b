/** The upstream of every subject: a fixed answer of some 230 bytes over keep-alive connections. */
import { createServer } from 'node:http'
import { order } from './calls.mjs'
import { listen } from './listen.mjs'

const body = Buffer.from(JSON.stringify(order))
const headers = { 'content-type': 'application/json', 'content-length': body.length }

listen(
  createServer((_request, response) => {
    response.writeHead(200, headers)
    response.end(body)
  }),
)
