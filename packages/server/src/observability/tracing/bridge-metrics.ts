/**
 * Exposes all metrics of a registry to OpenTelemetry, read when its SDK collects. A histogram
 * becomes its Prometheus samples, because recording each value twice would slow every decision.
 */
import type { BatchObservableCallback, Meter, Observable } from '@opentelemetry/api'
import type { Registry } from '../metrics/registry.js'
import { type SampledMetric, readSamples } from './metric-samples.js'

/** Returns the function that stops the bridge. */
export function bridgeMetrics(registry: Pick<Registry, 'text'>, meter: Meter): () => void {
  const bridge = new Bridge(registry, meter)
  bridge.follow(readSamples(registry.text()))
  return () => bridge.stop()
}

class Bridge {
  readonly #registry: Pick<Registry, 'text'>
  readonly #meter: Meter
  readonly #observed = new Map<string, Observable>()
  /** The observables that `#observe` is registered for. */
  #bound: Observable[] = []
  #isStopped = false

  constructor(registry: Pick<Registry, 'text'>, meter: Meter) {
    this.#registry = registry
    this.#meter = meter
  }

  /** Registers metrics that are new; they are observed from the next collection on. */
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
    // The SDK is iterating over its callbacks, so they must not change before it has finished.
    queueMicrotask(() => this.follow(metrics))
  }
}
