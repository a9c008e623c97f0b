/** The colour theme: light or dark, as the system prefers unless the user chose one. */
import { computed, effect, signal } from '@preact/signals'

export type ThemeChoice = 'system' | 'light' | 'dark'
const CHOICES: readonly ThemeChoice[] = ['system', 'light', 'dark']
const STORAGE_KEY = 'sluice.theme'

const systemDark = matchMedia('(prefers-color-scheme: dark)')
const isSystemDark = signal(systemDark.matches)

export const themeChoice = signal<ThemeChoice>(readChoice())

export const theme = computed<'light' | 'dark'>(() =>
  themeChoice.value === 'system' ? (isSystemDark.value ? 'dark' : 'light') : themeChoice.value,
)

/** Storage may be blocked by the browser: then the choice lasts until the page is closed. */
function readChoice(): ThemeChoice {
  try {
    return CHOICES.find((choice) => choice === localStorage.getItem(STORAGE_KEY)) ?? 'system'
  } catch {
    return 'system'
  }
}

export function nextTheme(): void {
  themeChoice.value = CHOICES[(CHOICES.indexOf(themeChoice.value) + 1) % CHOICES.length] ?? 'system'
  try {
    localStorage.setItem(STORAGE_KEY, themeChoice.value)
  } catch {
    // Storage is blocked: see readChoice.
  }
}

export function startTheme(): void {
  systemDark.addEventListener('change', (event) => {
    isSystemDark.value = event.matches
  })
  effect(() => {
    document.documentElement.dataset['theme'] = theme.value
  })
}
