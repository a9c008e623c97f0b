/** The `sluice` command. Exit codes: 0 ok, 1 refused or found something, 2 misuse. */
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { runServer } from '@sluice/server'

const MISUSE = 2

/** Runs one command line; resolves to the exit code when it has ended. */
export async function main(argv: readonly string[]): Promise<number> {
  let code = 0
  const program = new Command('sluice')
    .description('A distributed rate limiter: decides for every call whether it still has budget.')
    .version(ownVersion())
    .exitOverride()
    .showHelpAfterError()
  program
    .command('serve')
    .description('run the gateway, the decision API and the admin listener until stopped')
    .option('-c, --config <file>', 'configuration file (default: sluice.yaml, if there is one)')
    .option('--json', 'print where it listens as one line of JSON instead of text')
    .option('--check', 'read configuration and rules, tell what is wrong, and end')
    .addHelpText('after', SERVE_HELP)
    .action(async (options: ServeFlags) => {
      code = await runServer(options)
    })
  try {
    await program.parseAsync(argv, { from: 'user' })
  } catch (error) {
    // Help and version are what was asked for; everything else that commander throws is misuse.
    return isCommanderExit(error) ? (error.exitCode === 0 ? 0 : MISUSE) : fail(error)
  }
  return code
}

interface ServeFlags {
  readonly config?: string
  readonly json?: boolean
  readonly check?: boolean
}

const SERVE_HELP = `
With neither configuration nor rules it runs an example: rules of a B2B API and a built-in upstream.
With SLUICE_REDIS_URL=redis://host:6379 all nodes enforce one limit; docs/guides/redis.md says how.
SIGTERM finishes calls under way and exits within 10 seconds; a second one exits at once.
Environment variables override the file; docs/reference/configuration.md lists both.
Exit codes: 0 stopped as asked, 1 failed while running, 2 bad configuration or rules.`

function isCommanderExit(error: unknown): error is { readonly exitCode: number } {
  return error instanceof Error && 'exitCode' in error && typeof error.exitCode === 'number'
}

function fail(error: unknown): number {
  console.error(error instanceof Error ? error.message : String(error))
  return 1
}

function ownVersion(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  const { version } = JSON.parse(text) as { readonly version: string }
  return version
}
