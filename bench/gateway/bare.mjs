/** The minimal decision API: reads a body, parses it, answers. */
import { createServer } from 'node:http'
import { listen } from './listen.mjs'

const answer = Buffer.from('{"allowed":true}')
const headers = { 'content-type': 'application/json', 'content-length': answer.length }

listen(
  createServer((request, response) => {
    const chunks = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      const { attributes } = JSON.parse(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks))
      response.writeHead(attributes === undefined ? 400 : 200, headers)
      response.end(answer)
    })
  }),
)
