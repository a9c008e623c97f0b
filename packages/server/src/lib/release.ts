/** The release of Sluice that runs. */
import { readFileSync } from 'node:fs'

interface Manifest {
  readonly version: string
}

const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')

export const RELEASE = (JSON.parse(text) as Manifest).version
