/** An upstream that counts the bytes of each body and records which calls it received, and when. */
import { createServer } from 'node:http'

const seen = []
let connections = 0

const server = createServer((request, response) => {
  if (request.url === '/record') {
    response.end(JSON.stringify({ seen, connections }))
    return
  }
  const call = { method: request.method, path: request.url, bytes: 0, isWhole: false }
  seen.push(call)
  request.on('data', (chunk) => (call.bytes += chunk.length))
  request.on('error', () => {})
  request.on('end', () => {
    call.isWhole = true
    response.end(`bytes: ${call.bytes}`)
  })
})
server.on('connection', (socket) => {
  connections++
  socket.on('close', () => connections--)
})
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${server.address().port}\n`)
})
