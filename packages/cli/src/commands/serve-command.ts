/** `sluice serve` */
import type { Command } from 'commander'
import type { Cli } from '../command-context.js'

interface ServeFlags {
  readonly config?: string
  readonly json?: boolean
  readonly check?: boolean
  readonly asEnvoyRatelimit?: boolean
}

export function addServe(program: Command, cli: Cli): void {
  program
    .command('serve')
    .description('run the gateway, the decision API and the admin listener until stopped')
    .option('-c, --config <file>', 'configuration file (default: sluice.yaml, if there is one)')
    .option('--json', 'print the addresses as one line of JSON')
    .option('--check', 'check configuration and rules, print problems and exit')
    .option('--as-envoy-ratelimit', 'run in place of envoyproxy/ratelimit: its variables and ports')
    .addHelpText('after', SERVE_HELP)
    .action(async (options: ServeFlags) => {
      // Imported here, so that other commands do not wait for the server to load.
      const { runServer } = await import('@sluice/server')
      cli.exitWith(await runServer({ ...options, write: cli.io.out }))
    })
}

const SERVE_HELP = `
Examples:
  sluice serve
  sluice serve --config sluice.yaml --check
  SLUICE_UPSTREAM=http://127.0.0.1:3000 SLUICE_REDIS_URL=redis://127.0.0.1:6379 sluice serve

With nothing configured it runs an example: rules of a B2B API and a built-in upstream. With a file,
rules, a database, an upstream or a listener beyond loopback a new rule store begins empty, and
/readyz answers 503 "no rules" until there is one; allowNoRules: true makes it ready without.
With SLUICE_REDIS_URL=redis://host:6379 all nodes enforce one limit; docs/guides/redis.md says how.
Rules are kept in the data directory, with SLUICE_DATABASE_URL=postgres://host/db in Postgres for all
nodes; SLUICE_RULES=rules.yaml is a file of your own in their place. docs/guides/rules.md says how.
With --as-envoy-ratelimit, or under the name ratelimit, it reads the variables of envoyproxy/ratelimit
and listens on its ports, without gateway and admin API; docs/reference/envoy.md lists them.
SIGTERM finishes calls under way and exits within 10 seconds; a second one exits at once.
Environment variables override the file; docs/reference/configuration.md lists both.
Exit codes: 0 stopped as asked, 1 failed while running, 2 bad configuration or rules.`
