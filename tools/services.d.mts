/** A program that tests run for real. */
export type Service =
  | 'nginx'
  | 'caddy'
  | 'haproxy'
  | 'openssl'
  | 'curl'
  | 'redis-server'
  | 'redis-cli'
  | 'cc'
  | 'psql'
  | 'pgbouncer'
  | 'promtool'
  | 'chromium'

/** Installs what is missing, if it can, and returns the commands that are missing after that. */
export function installServices(): readonly Service[]

/** Where a service is, or an error that says how to get it. */
export function findService(service: Service): string

/** What is printed where programs are missing. */
export function describeMissing(commands: readonly Service[]): string

/** Installs all together, or one by one; returns a line for each that could not be installed. */
export function installAll(
  packages: readonly string[],
  installThese: (packages: readonly string[]) => void,
): readonly string[]
