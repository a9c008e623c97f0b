import { Server, ServerCredentials } from '@grpc/grpc-js'
import { ANSWER } from './messages.mjs'

const plain = (bytes) => bytes
const method = {
  path: '/bench.Service/Call',
  requestStream: false,
  responseStream: false,
  requestSerialize: plain,
  requestDeserialize: plain,
  responseSerialize: plain,
  responseDeserialize: plain,
}
const server = new Server()
server.addService({ call: method }, { call: (_call, respond) => respond(null, ANSWER) })
server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}` }))
})
