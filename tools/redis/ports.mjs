/**
 * Ports for servers that are killed and started again on the same one. They lie below those that
 * the system gives to outgoing connections: a client that keeps dialling a port nobody listens on
 * would otherwise, once in some thousand times, be given that very port and reach itself.
 */
import { createServer } from 'node:net'

const PORT_FIRST = 12_000
const PORT_LAST = 32_000
const TRIES_MAX = 100

/** Given out by this process, so that no two servers wait for the same one. */
const given = new Set()

/** A port that was free a moment ago. */
export async function freePort() {
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const port = PORT_FIRST + Math.floor(Math.random() * (PORT_LAST - PORT_FIRST))
    if (given.has(port) || !(await isFree(port))) continue
    given.add(port)
    return port
  }
  throw new Error(`No free port between ${PORT_FIRST} and ${PORT_LAST} in ${TRIES_MAX} tries`)
}

function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
