import { existsSync, readFileSync, writeFileSync } from 'node:fs'

/** An equal file is not rewritten: a newer one would make tsc rebuild its dependents. */
export function writeIfChanged(path, text) {
  if (!existsSync(path) || readFileSync(path, 'utf8') !== text) writeFileSync(path, text)
}
