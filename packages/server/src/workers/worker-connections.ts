/**
 * Reassigns connections that a worker was given and never accepted. Node's cluster passes each
 * connection to one worker and keeps it open until the worker confirms it. If the worker exits
 * before that, for example because it hung and was killed, its client would wait for ever: the
 * primary process keeps the connection open and does not read it.
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

/** How often to check whether all messages of a worker that exited were read. */
const RETRY_MS = 50

/**
 * Follows one worker from its start. After its exit, each connection that it did not accept goes to
 * another worker, or is closed if there is none. A worker reads nothing from a connection before it
 * accepts it, so no call is decided twice.
 *
 * Node has no public API for this. If the format of its messages changes, this has no effect.
 */
export function reclaimConnections(worker: Worker, hasOthers: () => boolean): void {
  const { process } = worker
  // Undefined if the system could not start the process.
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
    // Its last messages may not be read yet, such as one that confirms a connection.
    if (process.connected) return void setTimeout(release, RETRY_MS).unref()
    // Node forgets this if a connection is on its way, and would hand the worker another one.
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
