/** The alerts of all nodes, for every page: what is known stays when no server answers. */
import type { AlertsView } from '@sluice/client'
import { computed, signal } from '@preact/signals'
import { api, leaveIfOut } from './api.js'
import { now } from './clock.js'

/** What an alert says changes while it lasts: for how long, and how many. */
const EVERY_MS = 15_000

const alertsNow = signal<AlertsView | undefined>(undefined)
const errorNow = signal<unknown>(undefined)

/** Undefined: not known yet, which is not the same as none. */
export const seenAlerts = computed(() => alertsNow.value)
/** Why the last try to read them failed, if it did. */
export const alertsError = computed(() => errorNow.value)
/** Whether one of them is for somebody who may be asleep. */
export const hasPage = computed(
  () => alertsNow.value?.active.some(({ severity }) => severity === 'page') ?? false,
)

let loadedMs = Number.NEGATIVE_INFINITY
let isLoading = false
let isAskedAgain = false
let toldActive: number | undefined

/** Alerts come together: those that are told while the list is on its way ask for it once more. */
export async function reloadAlerts(): Promise<void> {
  isAskedAgain = isLoading
  if (isLoading) return
  isLoading = true
  try {
    alertsNow.value = await api.alerts()
    errorNow.value = undefined
  } catch (error) {
    if (!leaveIfOut(error)) errorNow.value = error
  } finally {
    loadedMs = now()
    isLoading = false
  }
  if (isAskedAgain) await reloadAlerts()
}

/** With every tick: so many are active, as its sender says. */
export function onAlertsActive(active: number): void {
  const isOther = active !== toldActive
  toldActive = active
  if (isOther || errorNow.value !== undefined || now() - loadedMs > EVERY_MS) void reloadAlerts()
}

export function forgetAlerts(): void {
  alertsNow.value = undefined
  errorNow.value = undefined
}
