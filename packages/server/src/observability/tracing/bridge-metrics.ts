/**
 * All metrics of a registry as those of OpenTelemetry, read when its SDK asks. A histogram is told
 * as its parts, as Prometheus has it: to record each value there as well would cost every decision.
 */
import type { BatchObservableCallback, Meter, Observable } from '@opentelemetry/api'
import type { Registry } from '../metrics/registry.js'
import { type SampledMetric, readSamples } from './metric-samples.js'

/** Stops when the function is called that it returns. */
export function bridgeMetrics(registry: Pick<Registry, 'text'>, meter: Meter): () => void {
  const bridge = new Bridge(registry, meter)
  bridge.follow(readSamples(registry.text()))
  return () => bridge.stop()
}

class Bridge {
  readonly #registry: Pick<Registry, 'text'>
  readonly #meter: Meter
  readonly #observed = new Map<string, Observable>()
  /** Those that `#observe` is asked for. */
  #bound: Observable[] = []
  #isStopped = false

  constructor(registry: Pick<Registry, 'text'>, meter: Meter) {
    this.#registry = registry
    this.#meter = meter
  }

  /** Metrics that are new since the last time are told from the next time on. */
  follow(metrics: ReadonlyMap<string, SampledMetric>): void {
    const before = this.#observed.size
    for (const metric of metrics.values()) {
      if (!this.#observed.has(metric.name)) this.#observed.set(metric.name, this.make(metric))
    }
    if (this.#observed.size === before || this.#isStopped) return
    this.unbind()
    this.#bound = [...this.#observed.values()]
    this.#meter.addBatchObservableCallback(this.#observe, this.#bound)
  }

  stop(): void {
    this.#isStopped = true
    this.unbind()
  }

  private unbind(): void {
    if (this.#bound.length === 0) return
    this.#meter.removeBatchObservableCallback(this.#observe, this.#bound)
    this.#bound = []
  }

  private make({ name, help, isCounter }: SampledMetric): Observable {
    const options = { description: help }
    return isCounter
      ? this.#meter.createObservableCounter(name, options)
      : this.#meter.createObservableGauge(name, options)
  }

  readonly #observe: BatchObservableCallback = (result) => {
    const metrics = readSamples(this.#registry.text())
    for (const { name, samples } of metrics.values()) {
      const observable = this.#observed.get(name)
      if (observable === undefined) continue
      for (const { labels, value } of samples) result.observe(observable, value, labels)
    }
    // The SDK goes through its callbacks right now: theirs may not change before it is through.
    queueMicrotask(() => this.follow(metrics))
  }
}
