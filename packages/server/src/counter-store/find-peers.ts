/** Reads the list of the members of a ring where the configuration says that it is. */
import { promises as dns } from 'node:dns'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { formatListen, parseListen } from '../config/listen.js'
import type { ListenAddress, RingPeers } from '../config/config.js'

const COMMENT = /#.*$/
/** A file of this many characters names more members than a ring has. */
const FILE_LENGTH_MAX = 100_000

/**
 * Rejects if the list cannot be read, is not valid, or is empty, as a file is that is being
 * written. `self` is how the list names this node.
 */
export async function findPeers(
  peers: RingPeers,
  self: ListenAddress,
): Promise<readonly ListenAddress[]> {
  const found = await readPeers(peers, self)
  if (found.length === 0) throw new Error(`${nameOf(peers)}: found no members`)
  return found
}

async function readPeers(peers: RingPeers, self: ListenAddress): Promise<readonly ListenAddress[]> {
  switch (peers.kind) {
    case 'list':
      return peers.addresses
    case 'file':
      return parsePeersFile(await readFile(peers.path, 'utf8'), peers.path)
    case 'dns': {
      // A name may have addresses of both kinds; with both, each node would be two members.
      const family = isIP(self.host)
      const found = await dns.lookup(peers.host, { all: true, family })
      return found.map(({ address }) => canonical({ host: address, port: peers.port }))
    }
    case 'srv': {
      const found = await dns.resolveSrv(peers.name)
      return found.map(({ name, port }) => canonical({ host: name, port }))
    }
  }
}

/** Spelled as `advertise` is, by which a node finds itself; a name may be spelled in two ways. */
function canonical(address: ListenAddress): ListenAddress {
  const host = address.host.replace(/\.$/, '')
  return parseListen(formatListen({ ...address, host })) ?? address
}

function nameOf(peers: RingPeers): string {
  switch (peers.kind) {
    case 'list':
      return 'ring.peers'
    case 'file':
      return peers.path
    case 'dns':
      return peers.host
    case 'srv':
      return peers.name
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
