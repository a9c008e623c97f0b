/** The least that node:http2 needs for a call: it reads the message and sends a constant one. */
import { createServer } from 'node:http2'
import { announce } from '../gateway/listen.mjs'
import { ANSWER } from './messages.mjs'

const BODY = Buffer.concat([Buffer.from([0, 0, 0, 0, ANSWER.length]), ANSWER])
const HEADERS = { ':status': 200, 'content-type': 'application/grpc' }

const server = createServer({ settings: { maxConcurrentStreams: 1_000 } })
server.on('stream', (stream) => {
  stream.on('data', () => {})
  stream.on('end', () => {
    stream.respond(HEADERS, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
    stream.end(BODY)
  })
})
server.listen({ port: 0, host: '127.0.0.1' }, () => announce(server))
