/** Reads the list of the members of a ring where the configuration says that it is. */
import { promises as dns } from 'node:dns'
import { readFile } from 'node:fs/promises'
import { parseListen } from '../config/listen.js'
import type { ListenAddress, RingPeers } from '../config/config.js'

const COMMENT = /#.*$/
/** A file of this many characters names more members than a ring has. */
const FILE_LENGTH_MAX = 100_000

/** Rejects if the list cannot be read or is not valid. */
export async function findPeers(peers: RingPeers): Promise<readonly ListenAddress[]> {
  switch (peers.kind) {
    case 'list':
      return peers.addresses
    case 'file':
      return parsePeersFile(await readFile(peers.path, 'utf8'), peers.path)
    case 'dns': {
      const found = await dns.lookup(peers.host, { all: true })
      return found.map(({ address }) => ({ host: address, port: peers.port }))
    }
    case 'srv': {
      const found = await dns.resolveSrv(peers.name)
      return found.map(({ name, port }) => ({ host: name, port }))
    }
  }
}

/** One address on each line; `#` begins a comment. */
export function parsePeersFile(text: string, path: string): readonly ListenAddress[] {
  if (text.length > FILE_LENGTH_MAX) throw new Error(`${path}: found ${text.length} characters`)
  const addresses: ListenAddress[] = []
  for (const [index, line] of text.split('\n').entries()) {
    const plain = line.replace(COMMENT, '').trim()
    if (plain === '') continue
    const address = parseListen(plain)
    if (address === undefined || address.port === 0) {
      throw new Error(`${path}:${index + 1}: accepted: one address host:port on each line`)
    }
    addresses.push(address)
  }
  return addresses
}
