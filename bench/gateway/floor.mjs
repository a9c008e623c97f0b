/** The minimal proxy with the client that Sluice uses: no limit, no header inspected. */
import { createServer } from 'node:http'
import { Pool } from 'undici'
import { listen } from './listen.mjs'

const pool = new Pool(process.argv[2], { connections: 256, pipelining: 1 })

class Exchange {
  #response

  constructor(response) {
    this.#response = response
  }

  onConnect() {}

  onHeaders(status, headers, resume) {
    this.#response.on('drain', resume)
    this.#response.writeHead(
      status,
      headers.map((header) => header.toString('latin1')),
    )
    return true
  }

  onData(chunk) {
    return this.#response.write(chunk)
  }

  onComplete() {
    this.#response.end()
  }

  onError(error) {
    this.#response.destroy(error)
  }
}

listen(
  createServer((request, response) => {
    const { url: path, method, headers } = request
    pool.dispatch({ path, method, headers }, new Exchange(response))
  }),
)
