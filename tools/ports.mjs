/**
 * Ports for servers that start a moment later, or are killed and started again on the same port.
 * They are below the range of outgoing connections: a client that keeps dialling a port without a
 * listener would otherwise, once in some thousand times, get that very port as its own and connect
 * to itself. Each worker of the test runner has its own share of the ports, so that none takes one
 * that another has just found free.
 */
import { createServer } from 'node:net'

const PORT_FIRST = 12_000
const PORT_LAST = 32_000
const SHARES = 8
const TRIES_MAX = 100

const share = Number(process.env['VITEST_POOL_ID'] ?? 0) % SHARES
const width = (PORT_LAST - PORT_FIRST) / SHARES
const first = PORT_FIRST + share * width

/** Ports that this process has assigned, so that no two servers get the same one. */
const given = new Set()

/** A port that was free a moment ago. */
export async function freePort() {
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const port = first + Math.floor(Math.random() * width)
    if (given.has(port)) continue
    given.add(port)
    if (await isFree(port)) return port
  }
  throw new Error(`No free port from ${first} to ${first + width - 1} in ${TRIES_MAX} tries`)
}

function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
