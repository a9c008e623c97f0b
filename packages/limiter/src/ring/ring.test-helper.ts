/** Rings of several members in one process, connected by sockets of the file system. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Clock } from '../clock.js'
import type { Member, MemberList } from './members.js'
import { type OpenPeer, peerSockets } from './peer-socket.js'
import { type RingStore, type RingStoreOptions, ringStore } from './ring-store.js'

const SECRET = new Uint8Array(16).fill(7)
/** No claim about speed: long enough for a busy machine. */
const DEADLINE_MS = 10_000
const POLL_MS = 2

export interface TestRing {
  readonly stores: readonly RingStore[]
  /** Adds a member, and waits until it and all others know each other. */
  add(name: string): Promise<RingStore>
  /** Removes a member from the list, as after a crash; the member itself is not told. */
  remove(name: string): void
  /** Ends all connections to a member and accepts none until it is healed. */
  cut(name: string): void
  heal(name: string): void
  /** Waits until every listed member can ask every other one. */
  connected(): Promise<void>
  close(): Promise<void>
}

export interface TestRingOptions {
  readonly clock?: Clock | undefined
  readonly store?: Partial<RingStoreOptions> | undefined
}

/** Opens a ring with these members. */
export async function openRing(
  names: readonly string[],
  { clock, store: more }: TestRingOptions = {},
): Promise<TestRing> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-ring-'))
  const present = new Map<string, Member>()
  const listeners = new Map<string, () => void>()
  const stores = new Map<string, RingStore>()
  const links = new Links()
  const changed = () => {
    for (const listener of listeners.values()) listener()
  }
  const listOf = (member: Member): MemberList => ({
    members: () => [...present.values()],
    onChange: (listener) => void listeners.set(member.name, listener),
    join() {
      present.set(member.name, member)
      changed()
    },
    async leave() {
      present.delete(member.name)
      changed()
    },
  })
  const connected = async () => {
    const isConnected = () =>
      [...stores].every(([name, store]) => {
        const nodes = store.health().remote?.nodes ?? []
        return [...present.keys()].every(
          (other) =>
            other === name || nodes.some((each) => each.address === other && each.isAnswering),
        )
      })
    while (!isConnected()) await pause()
  }
  const add = async (name: string) => {
    const member = { name, address: { path: join(folder, `${name}.sock`) } }
    const store = ringStore({
      self: name,
      listen: member.address,
      members: listOf(member),
      secret: SECRET,
      deadlineMs: DEADLINE_MS,
      clock,
      openPeer: links.open,
      ...more,
    })
    stores.set(name, store)
    await store.ready
    await connected()
    return store
  }
  for (const name of names) await add(name)
  return {
    get stores() {
      return [...stores.values()]
    },
    add,
    remove(name) {
      present.delete(name)
      stores.delete(name)
      listeners.delete(name)
      changed()
    },
    cut: (name) => links.cut(join(folder, `${name}.sock`)),
    heal: (name) => links.heal(join(folder, `${name}.sock`)),
    connected,
    async close() {
      present.clear()
      changed()
      await Promise.all([...stores.values()].map((store) => store.close()))
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

type Connection = Parameters<OpenPeer>[1] & { readonly path: string; end(): void }

/** Connections by path that a test can cut. */
class Links {
  readonly #cut = new Set<string>()
  readonly #connections = new Set<Connection>()
  readonly #open = peerSockets()

  readonly open: OpenPeer = (address, events) => {
    const path = 'path' in address ? address.path : ''
    const socket = this.#open(address, events)
    const end = () => {
      socket.destroy()
      events.ended(new Error('The link was cut'))
    }
    if (this.#cut.has(path)) queueMicrotask(end)
    else this.#connections.add({ ...events, path, end })
    return socket
  }

  cut(path: string): void {
    this.#cut.add(path)
    for (const connection of this.#connections) {
      if (connection.path !== path) continue
      this.#connections.delete(connection)
      connection.end()
    }
  }

  heal(path: string): void {
    this.#cut.delete(path)
  }
}

export async function waitUntil(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await pause()
}

function pause(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, POLL_MS)
  })
}
