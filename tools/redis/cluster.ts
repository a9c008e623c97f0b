/** A real Redis Cluster: primaries with replicas, failovers, slots that move with their keys. */
import { freePort } from '../ports.mjs'
import type { RedisOptions, RedisServer } from './server.mjs'
import { moveSlots, startSlotMove, type SlotMove } from './slot-move.js'
import { startAll, stopAll, waitForData } from './start-all.js'
import { waitFor } from './wait-for.js'

const SLOTS = 16_384

export interface ClusterOptions {
  readonly primaries?: number
  readonly replicas?: number
  /** How long a node may be silent before others mark it as failed; a failover takes twice that. */
  readonly nodeTimeoutMs?: number
  /** More arguments for every node. */
  readonly config?: readonly string[]
  /** Starts each node. @default startRedis */
  readonly startNode?: (options: RedisOptions) => Promise<RedisServer>
}

export interface RedisCluster {
  /** `redis+cluster://` with all nodes. */
  readonly url: string
  /** Primaries first, then replicas, as at the start. */
  readonly nodes: readonly RedisServer[]
  /** The node that reports itself as the primary of a slot. */
  primaryOf(slot: number): Promise<RedisServer>
  slotOf(key: string): Promise<number>
  /** All running nodes that report themselves as primaries. */
  primaries(): Promise<readonly RedisServer[]>
  /** Kills the primary of a slot and returns it; `start` restarts it, then as a replica. */
  killPrimary(slot: number): Promise<RedisServer>
  /** Resolves to the new primary of the slot once every running node knows it. */
  waitForNewPrimary(slot: number, old: RedisServer): Promise<RedisServer>
  /** Moves this many slots with their keys from one primary to another; returns the slots. */
  moveSlots(count: number, from: RedisServer, to: RedisServer): Promise<readonly number[]>
  /** Begins to move a slot: until it is finished, the old primary answers ASK for moved keys. */
  startSlotMove(slot: number, to: RedisServer): Promise<SlotMove>
  stop(): Promise<void>
}

/** Resolves once every node reports the cluster as ok and every replica has its data. */
export async function startCluster(options: ClusterOptions = {}): Promise<RedisCluster> {
  const { primaries = 3, replicas = 3, startNode } = options
  const buses = await Promise.all(Array.from({ length: primaries + replicas }, freePort))
  const configs = buses.map((bus) => ({ config: configOf(bus, options) }))
  const nodes = await startAll(configs, startNode)
  try {
    await join(nodes, buses, primaries)
  } catch (error) {
    await stopAll(nodes)
    throw error
  }
  return clusterOf(nodes)
}

function configOf(bus: number, { nodeTimeoutMs = 2000, config = [] }: ClusterOptions) {
  const enabled = ['--cluster-enabled', 'yes', '--cluster-port', String(bus)]
  const timeout = ['--cluster-node-timeout', String(nodeTimeoutMs)]
  // Redis waits 5 s for more replicas before it sends its data; there are no others.
  return [...enabled, ...timeout, '--repl-diskless-sync-delay', '0', ...config]
}

async function join(
  nodes: readonly RedisServer[],
  buses: readonly number[],
  primaryCount: number,
): Promise<void> {
  const primaries = nodes.slice(0, primaryCount)
  await Promise.all(
    nodes.map((node, index) => node.call('CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1))),
  )
  await Promise.all(
    primaries.map((node, index) => {
      const [first, last] = [index, index + 1].map((part) =>
        Math.ceil((part * SLOTS) / primaryCount),
      )
      return node.call('CLUSTER', 'ADDSLOTSRANGE', String(first), String((last ?? SLOTS) - 1))
    }),
  )
  // Every node meets every other: gossip would take some seconds longer.
  for (const [index, node] of nodes.entries()) {
    const others = nodes.slice(index + 1).map((other, offset) => {
      const bus = buses[index + 1 + offset]
      return ['CLUSTER', 'MEET', other.host, String(other.port), String(bus)]
    })
    await node.pipeline(others)
  }
  const ids = await Promise.all(nodes.map((node) => node.cli('CLUSTER', 'MYID')))
  await waitForAll(
    nodes,
    'know each other',
    (view) => view.length === nodes.length && !view.some(isNew),
  )
  await Promise.all(
    nodes
      .slice(primaryCount)
      .map((node, index) => node.call('CLUSTER', 'REPLICATE', ids[index % primaryCount] ?? '')),
  )
  await waitForAll(nodes, 'agree on their replicas', (view) => {
    return view.filter(({ primaryId }) => primaryId !== '-').length === nodes.length - primaryCount
  })
  await waitFor('A cluster that is well', async () => {
    const infos = await Promise.all(nodes.map((node) => node.cli('CLUSTER', 'INFO')))
    return infos.every((info) => info.includes('cluster_state:ok'))
  })
  await waitForData(nodes.slice(primaryCount))
}

/** One line of CLUSTER NODES: what a node knows about another or itself. */
interface ClusterNodeView {
  readonly id: string
  readonly flags: readonly string[]
  /** `-` for a primary. */
  readonly primaryId: string
  readonly epoch: number
  readonly slots: readonly (readonly [first: number, last: number])[]
}

const isNew = ({ flags }: ClusterNodeView) => flags.includes('handshake')
const hasSlot = ({ slots }: ClusterNodeView, slot: number) =>
  slots.some(([first, last]) => first <= slot && slot <= last)

async function viewOf(node: RedisServer): Promise<readonly ClusterNodeView[]> {
  const lines = (await node.cli('CLUSTER', 'NODES')).trim().split('\n')
  return lines.map((line) => {
    const [id = '', , flags = '', primaryId = '', , , epoch, , ...slots] = line.split(' ')
    return {
      id,
      flags: flags.split(','),
      primaryId,
      epoch: Number(epoch),
      // Slots in brackets are migrating; their owner has not changed yet.
      slots: slots
        .filter((range) => !range.startsWith('['))
        .map((range) => range.split('-').map(Number))
        .map(([first = 0, last = first]) => [first, last]),
    }
  })
}

async function waitForAll(
  nodes: readonly RedisServer[],
  what: string,
  isSo: (view: readonly ClusterNodeView[]) => boolean,
): Promise<void> {
  await waitFor(`Nodes that ${what}`, async () =>
    (await Promise.all(nodes.map(viewOf))).every(isSo),
  )
}

function clusterOf(nodes: readonly RedisServer[]): RedisCluster {
  const running = () => nodes.filter((node) => node.isRunning && !node.isPaused)

  /** What every running node reports about itself. */
  async function selves() {
    const nodeViews = await Promise.all(
      running().map(async (node) => {
        const self = (await viewOf(node)).find(({ flags }) => flags.includes('myself'))
        return self === undefined ? [] : [{ node, ...self }]
      }),
    )
    return nodeViews.flat().filter(({ primaryId }) => primaryId === '-')
  }

  /** A former primary that was down may not know its new role yet: the later epoch wins. */
  async function claimOf(slot: number) {
    const claims = (await selves()).filter((self) => hasSlot(self, slot))
    return claims.toSorted((a, b) => b.epoch - a.epoch)[0]
  }

  async function primaryOf(slot: number): Promise<RedisServer> {
    const claim = await claimOf(slot)
    if (claim === undefined) throw new Error(`No node that runs has slot ${slot}`)
    return claim.node
  }

  return {
    url: `redis+cluster://${nodes.map(({ address }) => address).join(',')}`,
    nodes,
    primaryOf,
    slotOf: async (key) => Number(await running()[0]?.call('CLUSTER', 'KEYSLOT', key)),
    primaries: async () =>
      (await selves()).filter(({ slots }) => slots.length > 0).map(({ node }) => node),
    async killPrimary(slot) {
      const node = await primaryOf(slot)
      await node.kill()
      return node
    },
    waitForNewPrimary: (slot, old) =>
      waitFor(`A new primary of slot ${slot}`, async () => {
        const claim = await claimOf(slot)
        if (claim === undefined || claim.node === old) return undefined
        const views = await Promise.all(running().map(viewOf))
        const agree = (view: readonly ClusterNodeView[]) =>
          view.some((nodeViews) => nodeViews.id === claim.id && hasSlot(nodeViews, slot))
        const infos = await Promise.all(running().map((each) => each.cli('CLUSTER', 'INFO')))
        const isWell = infos.every((info) => info.includes('cluster_state:ok'))
        return views.every(agree) && isWell ? claim.node : undefined
      }),
    async moveSlots(count, from, to) {
      const self = (await viewOf(from)).find(({ flags }) => flags.includes('myself'))
      const slots = (self?.slots ?? [])
        .flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, at) => first + at))
        .slice(0, count)
      const primaries = (await selves()).map(({ node }) => node)
      await moveSlots(slots, from, to, primaries)
      return slots
    },
    startSlotMove: async (slot, to) =>
      startSlotMove(
        slot,
        await primaryOf(slot),
        to,
        (await selves()).map(({ node }) => node),
      ),
    stop: () => stopAll(nodes),
  }
}
