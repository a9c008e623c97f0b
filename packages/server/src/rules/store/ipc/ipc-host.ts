/** Serves the rule store to a worker process: responds to requests, and passes on changes. */
import type {
  Commit,
  HistoryQuery,
  KeysQuery,
  NodeReport,
  Position,
  RuleStore,
} from '../rule-store.js'
import {
  failureOf,
  type Hello,
  type IpcChannel,
  type StreamBatch,
  type RulesMessage,
} from './ipc-messages.js'

type IpcRequest = Extract<RulesMessage, { readonly sluice: 'rules-request' }>

/** A worker reads one stream at a time; beyond this many, the oldest open stream is closed. */
const STREAMS_MAX = 8
const STATUS_EVERY_MS = 500
/** Changes per message: one message for each change of a long history would be slow. */
const CHANGES_AT_ONCE = 500

/** Serves one worker until the returned function is called. */
export function hostRuleStore(
  store: RuleStore,
  channel: IpcChannel,
  isKeeper: boolean,
): () => void {
  const host = new IpcHost(store, channel, isKeeper)
  return () => host.close()
}

class IpcHost {
  readonly #store: RuleStore
  readonly #channel: IpcChannel
  readonly #isKeeper: boolean
  readonly #streams = new Map<number, OpenStream>()
  readonly #cleanups: readonly (() => void)[]
  #streamCount = 0
  #sentStatus = ''

  constructor(store: RuleStore, channel: IpcChannel, isKeeper: boolean) {
    this.#store = store
    this.#channel = channel
    this.#isKeeper = isKeeper
    const timer = setInterval(() => this.sendStatus(), STATUS_EVERY_MS)
    timer.unref()
    this.#cleanups = [
      channel.onMessage((message) => {
        if (message.sluice === 'rules-request') void this.respond(message)
      }),
      store.onChange(() => channel.send({ sluice: 'rules-change', status: store.status() })),
      () => clearInterval(timer),
    ]
  }

  close(): void {
    for (const end of this.#cleanups) end()
    for (const { stream } of this.#streams.values()) void stream.return?.()
    this.#streams.clear()
  }

  private sendStatus(): void {
    const status = this.#store.status()
    const text = JSON.stringify(status)
    if (text === this.#sentStatus) return
    this.#sentStatus = text
    this.#channel.send({ sluice: 'rules-status', status })
  }

  private async respond({ id, verb, args }: IpcRequest): Promise<void> {
    try {
      const value = await this.call(verb, args)
      this.#channel.send({ sluice: 'rules-response', id, value })
    } catch (error) {
      this.#channel.send({ sluice: 'rules-error', id, failure: failureOf(error) })
    }
  }

  private async call(verb: IpcRequest['verb'], args: readonly unknown[]): Promise<unknown> {
    const store = this.#store
    const [first, second, third] = args
    switch (verb) {
      case 'hello':
        return {
          name: store.name,
          status: store.status(),
          isKeeper: this.#isKeeper,
        } satisfies Hello
      case 'read':
        return this.openStream(store.read((first ?? undefined) as Position | undefined), 1)
      case 'changesAfter':
        return this.openStream(
          store.changesAfter(first as number, (second ?? undefined) as string | undefined),
          CHANGES_AT_ONCE,
        )
      case 'next':
        return this.pullStream(first as number)
      case 'end':
        return this.endStream(first as number)
      case 'commit':
        return store.commit(first as Commit)
      case 'history':
        return store.history(first as HistoryQuery)
      case 'keys':
        return store.keys(first as KeysQuery)
      case 'key':
        return (await store.key(first as string)) ?? null
      case 'adopt':
        return store.adopt(first as number, second as string, (third ?? undefined) as string)
      case 'report':
        return store.report(first as NodeReport)
      case 'nodes':
        return store.nodes()
    }
  }

  private openStream(iterable: AsyncIterable<unknown>, atOnce: number): number {
    const id = ++this.#streamCount
    this.#streams.set(id, { stream: iterable[Symbol.asyncIterator](), atOnce })
    const [oldest] = this.#streams.keys()
    if (this.#streams.size > STREAMS_MAX && oldest !== undefined) void this.endStream(oldest)
    return id
  }

  private async pullStream(id: number): Promise<StreamBatch> {
    const open = this.#streams.get(id)
    if (open === undefined) throw new Error('this stream was closed')
    const values: unknown[] = []
    try {
      while (values.length < open.atOnce) {
        const { done, value } = await open.stream.next()
        if (done === true) {
          this.#streams.delete(id)
          return { values, isDone: true }
        }
        values.push(value)
      }
      return { values, isDone: false }
    } catch (error) {
      this.#streams.delete(id)
      throw error
    }
  }

  private async endStream(id: number): Promise<void> {
    const open = this.#streams.get(id)
    this.#streams.delete(id)
    await open?.stream.return?.()
  }
}

interface OpenStream {
  readonly stream: AsyncIterator<unknown>
  readonly atOnce: number
}
