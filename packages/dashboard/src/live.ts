/** Live statistics of all nodes, updated while the page is open. */
import type { AlertView, EventView, StatsView, TickView } from '@sluice/client'
import { computed, signal } from '@preact/signals'
import { api, redirectIfLoggedOut } from './api.js'
import { now } from './clock.js'
import { clearAlerts, onActiveAlertCount, reloadAlerts } from './live-alerts.js'
import { applyTick } from './apply-tick.js'

interface Connection {
  /** `lost`: the connection broke and is being reopened. */
  readonly state: 'opening' | 'live' | 'lost'
  /** Time of the last message from the server; undefined: none yet. */
  readonly lastMessageMs: number | undefined
}

/** Ticks do not contain everything, such as distinct callers: the rest is reloaded this often. */
const RELOAD_EVERY_MS = 60_000
/** Shortest time between two reloads that are caused by gaps. */
const RELOAD_PAUSE_MS = 5000

const statsSignal = signal<StatsView | undefined>(undefined)
const tickSignal = signal<TickView | undefined>(undefined)
const connectionSignal = signal<Connection>({ state: 'opening', lastMessageMs: undefined })
const versionSignal = signal<number | undefined>(undefined)
const alertSignal = signal<AlertView | undefined>(undefined)
const errorSignal = signal<unknown>(undefined)

export const liveStats = computed(() => statsSignal.value)
export const lastTick = computed(() => tickSignal.value)
export const connection = computed(() => connectionSignal.value)
/** Changes whenever the active rules change. */
export const rulesVersion = computed(() => versionSignal.value)
/** The last alert that started or ended while the page was open. */
export const lastAlert = computed(() => alertSignal.value)
/** The error of the last attempt to load statistics, if it failed. */
export const statsError = computed(() => errorSignal.value)
export const alertsActive = computed(() => tickSignal.value?.alertsActive)

let loadedMs = Number.NEGATIVE_INFINITY
let isLoading = false

/** Loads the complete statistics. */
async function reloadStats(): Promise<void> {
  if (isLoading) return
  isLoading = true
  try {
    const fresh = await api.stats()
    statsSignal.value = fresh
    versionSignal.value = fresh.rulesVersion
    errorSignal.value = undefined
    markMessage(connectionSignal.value.state)
  } catch (error) {
    if (!redirectIfLoggedOut(error)) errorSignal.value = error
  } finally {
    loadedMs = now()
    isLoading = false
  }
}

const markMessage = (state: Connection['state']): void => {
  connectionSignal.value = { state, lastMessageMs: now() }
}

function onEvent(event: EventView): void {
  markMessage('live')
  switch (event.event) {
    case 'tick':
      onTick(event.data)
      break
    case 'rules':
      versionSignal.value = event.data.version
      break
    case 'alert':
      alertSignal.value = event.data
      void reloadAlerts()
      break
  }
}

function onTick(tick: TickView): void {
  tickSignal.value = tick
  versionSignal.value = tick.rulesVersion
  const { stats, isComplete } = applyTick(statsSignal.value, tick)
  statsSignal.value = stats
  onActiveAlertCount(tick.alertsActive)
  const age = now() - loadedMs
  if (age > RELOAD_EVERY_MS || (!isComplete && age > RELOAD_PAUSE_MS)) void reloadStats()
}

/** Listens until the returned function is called. The client reopens a broken connection. */
export function startLive(): () => void {
  const stop = new AbortController()
  connectionSignal.value = { state: 'opening', lastMessageMs: undefined }
  void reloadStats()
  void reloadAlerts()
  api
    .events({
      signal: stop.signal,
      onEvent,
      onState: (state) => {
        if (state === 'open') {
          // Events during the interruption were missed.
          if (connectionSignal.value.state === 'lost') {
            void reloadStats()
            void reloadAlerts()
          }
          markMessage('live')
        } else {
          connectionSignal.value = { ...connectionSignal.value, state: 'lost' }
        }
      },
    })
    .catch((error: unknown) => {
      if (!stop.signal.aborted && !redirectIfLoggedOut(error)) errorSignal.value = error
    })
  return () => {
    stop.abort()
    statsSignal.value = undefined
    tickSignal.value = undefined
    clearAlerts()
  }
}
