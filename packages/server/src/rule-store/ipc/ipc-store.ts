/**
 * The rule store as a worker has it. One process holds the store for all workers of a server: files
 * have one owner, and a database is not asked for the same thing by each.
 */
import type { Stored } from '../records.js'
import {
  type Chunk,
  type Commit,
  type HistoryQuery,
  type KeysQuery,
  type NodeReport,
  type NodeSeen,
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
  type Link,
  type Pulled,
  type RulesMessage,
  type Verb,
} from './messages.js'

/** The store has timeouts of its own; this one is for a process that hangs. */
const ANSWER_MS_MAX = 30_000

type KeyRecord = Stored & { readonly kind: 'key' }

export interface IpcStore extends RuleStore {
  /** Whether this worker keeps the last good rules on disk for all. */
  readonly isKeeper: boolean
}

export async function connectIpcStore(link: Link, answerMs = ANSWER_MS_MAX): Promise<IpcStore> {
  const asker = new Asker(link, answerMs)
  const hello = (await asker.ask('hello', [])) as Hello
  return new WorkerStore(asker, hello)
}

interface Waiting {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
  readonly timer: NodeJS.Timeout
}

class Asker {
  readonly #link: Link
  readonly #answerMs: number
  readonly #waiting = new Map<number, Waiting>()
  readonly #unlisten: () => void
  #count = 0
  onNews: (status: StoreStatus) => void = () => {}
  onStatus: (status: StoreStatus) => void = () => {}

  constructor(link: Link, answerMs: number) {
    this.#link = link
    this.#answerMs = answerMs
    this.#unlisten = link.onMessage((message) => this.hear(message))
  }

  ask(verb: Verb, args: readonly unknown[]): Promise<unknown> {
    const id = ++this.#count
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(id)
        const isUncertain = verb === 'commit' || verb === 'adopt'
        reject(new UnavailableError('the process that holds the rules is silent', { isUncertain }))
      }, this.#answerMs)
      timer.unref()
      this.#waiting.set(id, { resolve, reject, timer })
      this.#link.send({ sluice: 'rules-ask', id, verb, args })
    })
  }

  async *pull(verb: 'read' | 'changesAfter', args: readonly unknown[]): AsyncGenerator<unknown> {
    const stream = (await this.ask(verb, args)) as number
    let isDone = false
    try {
      for (;;) {
        const pulled = (await this.ask('next', [stream])) as Pulled
        isDone = pulled.isDone
        yield* pulled.values
        if (isDone) return
      }
    } finally {
      if (!isDone) this.ask('end', [stream]).catch(() => undefined)
    }
  }

  close(): void {
    this.#unlisten()
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer)
      reject(new UnavailableError('the rule store was closed'))
    }
    this.#waiting.clear()
  }

  private hear(message: RulesMessage): void {
    if (message.sluice === 'rules-news') return this.onNews(message.status)
    if (message.sluice === 'rules-status') return this.onStatus(message.status)
    if (message.sluice === 'rules-ask') return
    const waiting = this.#waiting.get(message.id)
    if (waiting === undefined) return
    this.#waiting.delete(message.id)
    clearTimeout(waiting.timer)
    if (message.sluice === 'rules-answer') waiting.resolve(message.value)
    else waiting.reject(errorOf(message.failure))
  }
}

class WorkerStore implements IpcStore {
  readonly name: string
  readonly isKeeper: boolean
  readonly #asker: Asker
  readonly #listeners = new Set<() => void>()
  #status: StoreStatus

  constructor(asker: Asker, { name, status, isKeeper }: Hello) {
    this.#asker = asker
    this.name = name
    this.isKeeper = isKeeper
    this.#status = status
    asker.onStatus = (now) => void (this.#status = now)
    asker.onNews = (now) => {
      this.#status = now
      for (const listener of this.#listeners) listener()
    }
  }

  read(since: Position | undefined): AsyncIterable<Chunk> {
    return this.#asker.pull('read', [since]) as AsyncIterable<Chunk>
  }

  changesAfter(version: number, rule?: string): AsyncIterable<PastChange> {
    return this.#asker.pull('changesAfter', [version, rule]) as AsyncIterable<PastChange>
  }

  commit(commit: Commit): Promise<Position> {
    return this.#asker.ask('commit', [commit]) as Promise<Position>
  }

  history(query: HistoryQuery): Promise<readonly PastVersion[]> {
    return this.#asker.ask('history', [query]) as Promise<readonly PastVersion[]>
  }

  keys(query: KeysQuery): Promise<readonly KeyRecord[]> {
    return this.#asker.ask('keys', [query]) as Promise<readonly KeyRecord[]>
  }

  async key(id: string): Promise<KeyRecord | undefined> {
    return ((await this.#asker.ask('key', [id])) as KeyRecord | null) ?? undefined
  }

  adopt(above: number, by: string, why: string | undefined): Promise<Position> {
    return this.#asker.ask('adopt', [above, by, why]) as Promise<Position>
  }

  async report(node: NodeReport): Promise<void> {
    await this.#asker.ask('report', [node])
  }

  nodes(): Promise<readonly NodeSeen[]> {
    return this.#asker.ask('nodes', []) as Promise<readonly NodeSeen[]>
  }

  onNews(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  status(): StoreStatus {
    return this.#status
  }

  async close(): Promise<void> {
    this.#listeners.clear()
    this.#asker.close()
  }
}
