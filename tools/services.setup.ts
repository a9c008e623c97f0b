/** Installs the programs that tests run for real, before the tests of a tier that needs them. */
import { installServices } from './services.mjs'

export function setup(): void {
  installServices()
}
