/**
 * The rule store of a worker. One process holds the store for all workers of a server: a folder has
 * one owner, and a database is not queried by every worker.
 */
import type { StoredKey } from '../records.js'
import {
  type RecordChunk,
  type Commit,
  type HistoryQuery,
  type KeysQuery,
  type NodeReport,
  type LiveNode,
  type PastChange,
  type PastVersion,
  type Position,
  type RuleStore,
  type StoreStatus,
  UnavailableError,
} from '../rule-store.js'
import {
  errorOf,
  type Hello,
  type IpcChannel,
  type StreamBatch,
  type RulesMessage,
  type Verb,
} from './ipc-messages.js'

/** Timeout for a host process that hangs; the store has timeouts of its own. */
const ANSWER_MS_MAX = 30_000

export interface IpcStore extends RuleStore {
  /** Whether this worker writes the last known good rules to disk for all. */
  readonly isKeeper: boolean
}

export async function connectIpcStore(
  channel: IpcChannel,
  answerMs = ANSWER_MS_MAX,
): Promise<IpcStore> {
  const client = new IpcClient(channel, answerMs)
  const hello = (await client.request('hello', [])) as Hello
  return new WorkerStore(client, hello)
}

interface PendingRequest {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
  readonly timer: NodeJS.Timeout
}

class IpcClient {
  readonly #channel: IpcChannel
  readonly #answerMs: number
  readonly #pending = new Map<number, PendingRequest>()
  readonly #stopListening: () => void
  #count = 0
  onChange: (status: StoreStatus) => void = () => {}
  onStatus: (status: StoreStatus) => void = () => {}

  constructor(channel: IpcChannel, answerMs: number) {
    this.#channel = channel
    this.#answerMs = answerMs
    this.#stopListening = channel.onMessage((message) => this.receive(message))
  }

  request(verb: Verb, args: readonly unknown[]): Promise<unknown> {
    const id = ++this.#count
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#pending.delete(id)
        const isUncertain = verb === 'commit' || verb === 'adopt'
        const message = 'the process that holds the rule store does not respond'
        reject(new UnavailableError(message, { isUncertain }))
      }, this.#answerMs)
      timer.unref()
      this.#pending.set(id, { resolve, reject, timer })
      this.#channel.send({ sluice: 'rules-request', id, verb, args })
    })
  }

  async *stream(verb: 'read' | 'changesAfter', args: readonly unknown[]): AsyncGenerator<unknown> {
    const stream = (await this.request(verb, args)) as number
    let isDone = false
    try {
      for (;;) {
        const batch = (await this.request('next', [stream])) as StreamBatch
        isDone = batch.isDone
        yield* batch.values
        if (isDone) return
      }
    } finally {
      if (!isDone) this.request('end', [stream]).catch(() => undefined)
    }
  }

  close(): void {
    this.#stopListening()
    for (const { reject, timer } of this.#pending.values()) {
      clearTimeout(timer)
      reject(new UnavailableError('the rule store was closed'))
    }
    this.#pending.clear()
  }

  private receive(message: RulesMessage): void {
    if (message.sluice === 'rules-change') return this.onChange(message.status)
    if (message.sluice === 'rules-status') return this.onStatus(message.status)
    if (message.sluice === 'rules-request') return
    const pending = this.#pending.get(message.id)
    if (pending === undefined) return
    this.#pending.delete(message.id)
    clearTimeout(pending.timer)
    if (message.sluice === 'rules-response') pending.resolve(message.value)
    else pending.reject(errorOf(message.failure))
  }
}

class WorkerStore implements IpcStore {
  readonly name: string
  readonly isKeeper: boolean
  readonly #client: IpcClient
  readonly #listeners = new Set<() => void>()
  #status: StoreStatus

  constructor(client: IpcClient, { name, status, isKeeper }: Hello) {
    this.#client = client
    this.name = name
    this.isKeeper = isKeeper
    this.#status = status
    client.onStatus = (now) => void (this.#status = now)
    client.onChange = (now) => {
      this.#status = now
      for (const listener of this.#listeners) listener()
    }
  }

  read(since: Position | undefined): AsyncIterable<RecordChunk> {
    return this.#client.stream('read', [since]) as AsyncIterable<RecordChunk>
  }

  changesAfter(version: number, rule?: string): AsyncIterable<PastChange> {
    return this.#client.stream('changesAfter', [version, rule]) as AsyncIterable<PastChange>
  }

  commit(commit: Commit): Promise<Position> {
    return this.#client.request('commit', [commit]) as Promise<Position>
  }

  history(query: HistoryQuery): Promise<readonly PastVersion[]> {
    return this.#client.request('history', [query]) as Promise<readonly PastVersion[]>
  }

  keys(query: KeysQuery): Promise<readonly StoredKey[]> {
    return this.#client.request('keys', [query]) as Promise<readonly StoredKey[]>
  }

  async key(id: string): Promise<StoredKey | undefined> {
    return ((await this.#client.request('key', [id])) as StoredKey | null) ?? undefined
  }

  adopt(above: number, by: string, why: string | undefined): Promise<Position> {
    return this.#client.request('adopt', [above, by, why]) as Promise<Position>
  }

  async report(node: NodeReport): Promise<void> {
    await this.#client.request('report', [node])
  }

  nodes(): Promise<readonly LiveNode[]> {
    return this.#client.request('nodes', []) as Promise<readonly LiveNode[]>
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  status(): StoreStatus {
    return this.#status
  }

  async close(): Promise<void> {
    this.#listeners.clear()
    this.#client.close()
  }
}
