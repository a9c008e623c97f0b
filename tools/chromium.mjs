/** How tests and benchmarks start Chromium: the installed program, without traffic of its own. */
import { findService } from './services.mjs'

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** Options for Playwright. */
export function chromiumOptions() {
  return { executablePath: findService('chromium'), args: FLAGS }
}
