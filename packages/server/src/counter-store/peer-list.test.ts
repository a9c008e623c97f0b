import { describe, expect, test, vi } from 'vitest'
import { parsePeersFile } from './find-peers.js'
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
