/** The alerts of all nodes, for every page: what is known stays when no server answers. */
import type { AlertsView } from '@sluice/client'
import { computed, signal } from '@preact/signals'
import { api, redirectIfLoggedOut } from './api.js'
import { now } from './clock.js'

/** What an alert says changes while it lasts: for how long, and how many. */
const REFRESH_MS = 15_000

const alertsSignal = signal<AlertsView | undefined>(undefined)
const errorSignal = signal<unknown>(undefined)

/** Undefined: not known yet, which is not the same as none. */
export const liveAlerts = computed(() => alertsSignal.value)
/** Why the last try to read them failed, if it did. */
export const alertsError = computed(() => errorSignal.value)
/** Whether one of them is for somebody who may be asleep. */
export const hasPagingAlert = computed(
  () => alertsSignal.value?.active.some(({ severity }) => severity === 'page') ?? false,
)

let loadedMs = Number.NEGATIVE_INFINITY
let isLoading = false
let isReloadPending = false
let lastActiveCount: number | undefined

/** Alerts come together: those that are told while the list is on its way ask for it once more. */
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

/** With every tick: so many are active, as its sender says. */
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
