/** What the nodes see, kept up to date while the page is open. */
import type { AlertView, EventView, StatsView, TickView } from '@sluice/client'
import { computed, signal } from '@preact/signals'
import { api, redirectIfLoggedOut } from './api.js'
import { now } from './clock.js'
import { clearAlerts, onActiveAlertCount, reloadAlerts } from './live-alerts.js'
import { applyTick } from './apply-tick.js'

interface Connection {
  /** `lost`: it was live, and is being opened again. */
  readonly state: 'opening' | 'live' | 'lost'
  /** When anything was last heard of the server; undefined: never. */
  readonly lastMessageMs: number | undefined
}

/** What is not told by ticks, such as distinct callers, is read anew this often. */
const RELOAD_EVERY_MS = 60_000
/** A gap asks for the whole; a server that always has gaps is not asked more often than this. */
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
/** Another one whenever the rules in force are. */
export const rulesVersion = computed(() => versionSignal.value)
/** The last alert that began or ended while the page was open. */
export const lastAlert = computed(() => alertSignal.value)
/** Why there are no stats, where there are none. */
export const statsError = computed(() => errorSignal.value)
export const alertsActive = computed(() => tickSignal.value?.alertsActive)

let loadedMs = Number.NEGATIVE_INFINITY
let isLoading = false

/** Reads the whole picture. */
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

function onEvent(told: EventView): void {
  markMessage('live')
  switch (told.event) {
    case 'tick':
      onTick(told.data)
      break
    case 'rules':
      versionSignal.value = told.data.version
      break
    case 'alert':
      alertSignal.value = told.data
      void reloadAlerts()
      break
  }
}

function onTick(told: TickView): void {
  tickSignal.value = told
  versionSignal.value = told.rulesVersion
  const { stats: next, isComplete: isWhole } = applyTick(statsSignal.value, told)
  statsSignal.value = next
  onActiveAlertCount(told.alertsActive)
  const age = now() - loadedMs
  if (age > RELOAD_EVERY_MS || (!isWhole && age > RELOAD_PAUSE_MS)) void reloadStats()
}

/** Listens until the returned function is called. What breaks off is opened again by the client. */
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
          // What happened meanwhile was told to nobody.
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
