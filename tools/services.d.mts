/** A program that tests run for real. */
export type Service =
  | 'nginx'
  | 'caddy'
  | 'haproxy'
  | 'openssl'
  | 'curl'
  | 'nghttp'
  | 'h2load'
  | 'redis-server'
  | 'redis-cli'
  | 'cc'
  | 'psql'
  | 'pgbouncer'
  | 'promtool'
  | 'chromium'

/** Installs missing packages if it can, and returns the commands that are still missing. */
export function installServices(): readonly Service[]

/** The path of a service, or an error that states how to install it. */
export function findService(service: Service): string

/** The message about missing programs. */
export function describeMissing(commands: readonly Service[]): string

/** Installs all together, or one by one; returns a line for each that could not be installed. */
export function installAll(
  packages: readonly string[],
  installThese: (packages: readonly string[]) => void,
): readonly string[]
