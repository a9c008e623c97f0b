import { promises as dns } from 'node:dns'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { findPeers, parsePeersFile } from './find-peers.js'
import { PeerList } from './peer-list.js'

const at = (port: number) => ({ host: '10.0.0.1', port })
const name = (port: number) => `10.0.0.1:${port}`

/** The list of the node at port 1, with a clock that the test moves. */
function openList() {
  let nowMs = 0
  const list = new PeerList({ self: at(1), nowMs: () => nowMs })
  const names = () => list.members().map((member) => member.name)
  const pass = (ms: number) => {
    nowMs += ms
    list.refresh()
  }
  return { list, names, pass }
}

describe('the members of a ring of nodes', () => {
  test('are those of the list, each once and in one order', () => {
    const { list, names } = openList()
    const onChange = vi.fn()
    list.onChange(onChange)
    list.update([at(3), at(1), at(3)])
    expect(names()).toEqual([name(1), name(3)])
    list.update([at(1), at(3)])
    expect(onChange).toHaveBeenCalledOnce()
  })

  test('have one more for half a minute when it says that it is here before the list does', () => {
    const { list, names, pass } = openList()
    list.update([at(1)])
    list.onAnnounced(name(2), 'here')
    pass(20_000)
    list.onAnnounced(name(2), 'here')
    expect(names()).toEqual([name(1), name(2)])
    pass(10_000)
    expect(names()).toEqual([name(1)])
    list.onAnnounced(name(2), 'here')
    expect(names()).toEqual([name(1)])
    list.update([at(1), at(2)])
    expect(names()).toEqual([name(1), name(2)])
  })

  test('do not have one that was taken off the list, whatever it says', () => {
    const { list, names } = openList()
    list.update([at(1), at(2)])
    list.update([at(1)])
    list.onAnnounced(name(2), 'here')
    expect(names()).toEqual([name(1)])
  })

  test('lack one that goes until it is here again, or the list still names it after half a minute', () => {
    const { list, names, pass } = openList()
    list.update([at(1), at(2)])
    list.onAnnounced(name(2), 'gone')
    expect(names()).toEqual([name(1)])
    list.onAnnounced(name(2), 'here')
    expect(names()).toEqual([name(1), name(2)])
    list.onAnnounced(name(2), 'gone')
    pass(30_000)
    expect(names()).toEqual([name(1), name(2)])
  })

  test('have this node from its start, and not once it leaves', async () => {
    const { list, names } = openList()
    list.join()
    expect(names()).toEqual([name(1)])
    list.update([at(1), at(2)])
    await list.leave()
    expect(names()).toEqual([name(2)])
  })

  test('ignore what is no address', () => {
    const { list, names } = openList()
    list.onAnnounced('a name', 'here')
    expect(names()).toEqual([])
  })
})

describe('a file of members', () => {
  test('has one address on each line, and comments', () => {
    expect(parsePeersFile('# ours\n10.0.0.1:1 # one\n\n[::1]:2\n', 'peers')).toEqual([
      { host: '10.0.0.1', port: 1 },
      { host: '::1', port: 2 },
    ])
  })

  test('with anything else is refused with its line', () => {
    expect(() => parsePeersFile('10.0.0.1:1\n10.0.0.2', 'peers')).toThrow('peers:2: accepted')
    expect(() => parsePeersFile('10.0.0.1:0', 'peers')).toThrow('peers:1: accepted')
  })
})

describe('the list of members', () => {
  afterEach(() => void vi.restoreAllMocks())

  const self = { host: '127.0.0.1', port: 8083 }

  test('that is empty is refused, as a file is that is being written', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-peers-'))
    const path = join(folder, 'peers')
    writeFileSync(path, '# none yet\n')
    await expect(findPeers({ kind: 'file', path }, self)).rejects.toThrow('found no members')
    rmSync(folder, { recursive: true })
  })

  test('has the addresses of a name that are of the same kind as this node’s', async () => {
    vi.spyOn(dns, 'lookup').mockImplementation((async (_: string, options: { family: number }) =>
      [
        { address: '127.0.0.1', family: 4 },
        { address: '0:0:0:0:0:0:0:1', family: 6 },
      ].filter(({ family }) => options.family === 0 || family === options.family)) as never)
    const peers = { kind: 'dns', host: 'nodes', port: 8083 } as const
    expect(await findPeers(peers, self)).toEqual([self])
    const one = { host: '::1', port: 8083 }
    expect(await findPeers(peers, one)).toEqual([one])
    expect(await findPeers(peers, { host: 'node-1', port: 8083 })).toHaveLength(2)
  })

  test('spells the targets of SRV records as a node names itself', async () => {
    vi.spyOn(dns, 'resolveSrv').mockResolvedValue([
      { name: 'Node-1.example.', port: 8083, priority: 0, weight: 0 },
    ])
    const found = await findPeers({ kind: 'srv', name: '_ring._tcp.example' }, self)
    expect(found).toEqual([{ host: 'node-1.example', port: 8083 }])
  })
})
