/** The alerts of all nodes, for every page. The last known list stays when the server is gone. */
import type { AlertsView } from '@sluice/client'
import { computed, signal } from '@preact/signals'
import { api, redirectIfLoggedOut } from './api.js'
import { now } from './clock.js'

/** Active alerts are reloaded this often, as their durations and counts change. */
const REFRESH_MS = 15_000

const alertsSignal = signal<AlertsView | undefined>(undefined)
const errorSignal = signal<unknown>(undefined)

/** Undefined: not yet known, which is not the same as no alerts. */
export const liveAlerts = computed(() => alertsSignal.value)
/** The error of the last attempt to load alerts, if it failed. */
export const alertsError = computed(() => errorSignal.value)
/** Whether an active alert has the severity `page`. */
export const hasPagingAlert = computed(
  () => alertsSignal.value?.active.some(({ severity }) => severity === 'page') ?? false,
)

let loadedMs = Number.NEGATIVE_INFINITY
let isLoading = false
let isReloadPending = false
let lastActiveCount: number | undefined

/** Alerts come in groups: one that arrives while the list is loading triggers one more reload. */
export async function reloadAlerts(): Promise<void> {
  isReloadPending = isLoading
  if (isLoading) return
  isLoading = true
  try {
    alertsSignal.value = await api.alerts()
    errorSignal.value = undefined
  } catch (error) {
    if (!redirectIfLoggedOut(error)) errorSignal.value = error
  } finally {
    loadedMs = now()
    isLoading = false
  }
  if (isReloadPending) await reloadAlerts()
}

/** Called with every tick. Reloads the alerts when their number changes, or when they are old. */
export function onActiveAlertCount(active: number): void {
  const hasChanged = active !== lastActiveCount
  lastActiveCount = active
  if (hasChanged || errorSignal.value !== undefined || now() - loadedMs > REFRESH_MS)
    void reloadAlerts()
}

export function clearAlerts(): void {
  alertsSignal.value = undefined
  errorSignal.value = undefined
}
