/**
 * The files of docs/guides/proxies, adapted to run in tests: other ports, and sometimes longer
 * timeouts.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The ports as the guide writes them. */
const GUIDE_PORTS = { public: 8000, ask: 8001, sluice: 8081, app: 3000, admin: 2019 } as const

export type Ports = Readonly<Record<keyof typeof GUIDE_PORTS, number>>

const NAMES = Object.keys(GUIDE_PORTS) as readonly (keyof typeof GUIDE_PORTS)[]
const PORT = new RegExp(`:(${Object.values(GUIDE_PORTS).join('|')})\\b`, 'g')

/** The line to uncomment so that no call passes while Sluice is down. */
const FAIL_CLOSED = /^(\s*)# (.* # fail closed: remove the first # of this line)$/gm

/**
 * The longest time that a call waits for Sluice; the second value bounds the first from outside.
 */
const PATIENCE = /\b500(?=ms\b)|(?<=\bASK_MS_MAX = )2000\b/g

export interface GuideOptions {
  readonly ports: Ports
  readonly failClosed: boolean
  /** Ten times the timeout, so that no call passes because the machine was busy for a moment. */
  readonly isPatient: boolean
}

export function readGuideFile(name: string): string {
  return readFileSync(new URL(`../docs/guides/proxies/${name}`, import.meta.url), 'utf8')
}

/** Writes one of the files into a folder. */
export function writeGuideFile(
  name: string,
  folder: string,
  { ports, failClosed, isPatient }: GuideOptions,
): void {
  const file = readGuideFile(name)
  if (file.search(PATIENCE) === -1) throw new Error(`${name}: found no time to wait at most`)
  const waiting = isPatient ? file.replaceAll(PATIENCE, (ms) => `${ms}0`) : file
  const text = waiting.replaceAll(PORT, (_, found: string) => {
    const which = NAMES.find((each) => GUIDE_PORTS[each] === Number(found))
    return `:${which === undefined ? found : ports[which]}`
  })
  writeFileSync(join(folder, name), failClosed ? text.replaceAll(FAIL_CLOSED, '$1$2') : text)
}

/** The number of lines in a file that make it fail closed. */
export function countFailClosed(name: string): number {
  return [...readGuideFile(name).matchAll(FAIL_CLOSED)].length
}
