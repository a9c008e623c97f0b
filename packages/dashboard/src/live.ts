/** What the nodes see, kept up to date while the page is open. */
import type { AlertView, EventView, StatsView, TickView } from '@sluice/client'
import { computed, signal } from '@preact/signals'
import { api, leaveIfOut } from './api.js'
import { now } from './clock.js'
import { forgetAlerts, onAlertsActive, reloadAlerts } from './live-alerts.js'
import { withTick } from './live-state.js'

interface Connection {
  /** `lost`: it was live, and is being opened again. */
  readonly state: 'opening' | 'live' | 'lost'
  /** When anything was last heard of the server; undefined: never. */
  readonly heardMs: number | undefined
}

/** What is not told by ticks, such as distinct callers, is read anew this often. */
const RELOAD_EVERY_MS = 60_000
/** A gap asks for the whole; a server that always has gaps is not asked more often than this. */
const RELOAD_PAUSE_MS = 5000

const statsNow = signal<StatsView | undefined>(undefined)
const tickNow = signal<TickView | undefined>(undefined)
const connectionNow = signal<Connection>({ state: 'opening', heardMs: undefined })
const versionNow = signal<number | undefined>(undefined)
const alertNow = signal<AlertView | undefined>(undefined)
const errorNow = signal<unknown>(undefined)

export const stats = computed(() => statsNow.value)
export const tick = computed(() => tickNow.value)
export const connection = computed(() => connectionNow.value)
/** Another one whenever the rules in force are. */
export const rulesVersion = computed(() => versionNow.value)
/** The last alert that began or ended while the page was open. */
export const lastAlert = computed(() => alertNow.value)
/** Why there are no stats, where there are none. */
export const statsError = computed(() => errorNow.value)
export const alertsActive = computed(() => tickNow.value?.alertsActive)

let loadedMs = Number.NEGATIVE_INFINITY
let isLoading = false

/** Reads the whole picture. */
async function reloadStats(): Promise<void> {
  if (isLoading) return
  isLoading = true
  try {
    const read = await api.stats()
    statsNow.value = read
    versionNow.value = read.rulesVersion
    errorNow.value = undefined
    heard(connectionNow.value.state)
  } catch (error) {
    if (!leaveIfOut(error)) errorNow.value = error
  } finally {
    loadedMs = now()
    isLoading = false
  }
}

const heard = (state: Connection['state']): void => {
  connectionNow.value = { state, heardMs: now() }
}

function onEvent(told: EventView): void {
  heard('live')
  switch (told.event) {
    case 'tick':
      onTick(told.data)
      break
    case 'rules':
      versionNow.value = told.data.version
      break
    case 'alert':
      alertNow.value = told.data
      void reloadAlerts()
      break
  }
}

function onTick(told: TickView): void {
  tickNow.value = told
  versionNow.value = told.rulesVersion
  const { next, isWhole } = withTick(statsNow.value, told)
  statsNow.value = next
  onAlertsActive(told.alertsActive)
  const age = now() - loadedMs
  if (age > RELOAD_EVERY_MS || (!isWhole && age > RELOAD_PAUSE_MS)) void reloadStats()
}

/** Listens until the returned function is called. What breaks off is opened again by the client. */
export function startLive(): () => void {
  const stop = new AbortController()
  connectionNow.value = { state: 'opening', heardMs: undefined }
  void reloadStats()
  void reloadAlerts()
  api
    .events({
      signal: stop.signal,
      onEvent,
      onState: (state) => {
        if (state === 'open') {
          // What happened meanwhile was told to nobody.
          if (connectionNow.value.state === 'lost') {
            void reloadStats()
            void reloadAlerts()
          }
          heard('live')
        } else {
          connectionNow.value = { ...connectionNow.value, state: 'lost' }
        }
      },
    })
    .catch((error: unknown) => {
      if (!stop.signal.aborted && !leaveIfOut(error)) errorNow.value = error
    })
  return () => {
    stop.abort()
    statsNow.value = undefined
    tickNow.value = undefined
    forgetAlerts()
  }
}
