/**
 * Keeps the connections that a worker was given and never took. Node's cluster hands each
 * connection to one worker and keeps it open until the worker says that it has it. A worker that
 * dies before it says so, as one that hangs does, would leave its caller waiting for ever: the
 * first process still has the connection open, and does not read it.
 */
import cluster, { type Worker } from 'node:cluster'

/** A message of Node's cluster that hands over a connection, as far as it is used here. */
interface NewConnection {
  readonly cmd: 'NODE_CLUSTER'
  readonly act: 'newconn'
  readonly seq: number
}

interface Reply {
  readonly ack?: number | undefined
}

/** How long until the next look whether everything was read that a worker said before it ended. */
const RETRY_MS = 50

/**
 * Follows one worker from its start. Once it has ended, each connection that it did not take goes
 * to another worker, or is closed where there is none. A worker reads nothing of a connection
 * before it has taken it, so no call is decided twice.
 *
 * Node has no public way to ask for this. Should the form of its messages change, then nothing is
 * kept here, and all is as without it.
 */
export function reclaimConnections(worker: Worker, hasOthers: () => boolean): void {
  const { process } = worker
  // Absent where the system had no room for the process.
  if ((process.send as unknown) === undefined) return
  /** By number of their message: one for each listener at most, as the next waits for the reply. */
  const untaken = new Set<number>()
  const send = process.send.bind(process) as (...values: readonly unknown[]) => boolean
  process.send = (...values: readonly unknown[]) => {
    const [message, handle] = values
    if (isNewConnection(message) && handle !== undefined) untaken.add(message.seq)
    return send(...values)
  }
  process.on('internalMessage', ({ ack }: Reply) => {
    if (ack !== undefined) untaken.delete(ack)
  })
  const release = () => {
    // What it said last may still be on its way, such as that it took a connection.
    if (process.connected) return void setTimeout(release, RETRY_MS).unref()
    // Node forgets this where a connection is on its way, and would hand the worker another one.
    if (cluster.workers?.[worker.id] !== undefined) process.emit('disconnect')
    // The answer of a worker that shuts down has `accepted: false`, and Node tries another. The
    // answer of one that took it has `true`, and Node closes its own end, which here is the last.
    const accepted = !hasOthers()
    for (const ack of untaken)
      process.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack, accepted })
  }
  worker.once('exit', release)
}

function isNewConnection(message: unknown): message is NewConnection {
  if (typeof message !== 'object' || message === null) return false
  const { cmd, act, seq } = message as Partial<NewConnection>
  return cmd === 'NODE_CLUSTER' && act === 'newconn' && typeof seq === 'number'
}
