/** Light or dark: as the system has it, unless somebody chose. */
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

/** A browser may forbid a page to keep anything: then the choice lasts as long as the page. */
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
    // Not kept: see above.
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
