/** `sluice tokens ...`: tokens of the admin API. */
import type { Role, TokenInput } from '@sluice/client'
import { type Command, Option } from 'commander'
import { OK } from '../command-errors.js'
import { instantText } from '../time-format.js'
import { escapeTerminal } from '../terminal-escape.js'
import {
  type ChangeFlags,
  type Cli,
  type CommonFlags,
  helpOf,
  run,
  withCommon,
  withWhy,
} from '../command-context.js'
import { pairs, table } from '../text-table.js'

interface AddFlags extends ChangeFlags {
  readonly role: Role
  readonly expires?: string
}

export function addTokens(program: Command, cli: Cli): void {
  const tokens = program
    .command('tokens')
    .description('manage admin API tokens: read, edit, admin')
    .addHelpText('after', TOKENS_HELP)

  withCommon(tokens.command('list'))
    .description('list active tokens; the tokens themselves are not stored')
    .addHelpText('after', helpOf('sluice tokens list'))
    .action((flags: CommonFlags) =>
      run(cli, flags, async ({ io, client, print }) => {
        const answer = await client.listTokens()
        print(answer, () =>
          answer.tokens.length === 0
            ? 'No tokens besides that of the server.\n'
            : table(
                ['ID', 'NAME', 'ROLE', 'CREATED', 'EXPIRES'],
                answer.tokens.map(({ id, name, role, createdAt, expiresAt }) => [
                  id,
                  name,
                  role,
                  instantText(createdAt),
                  instantText(expiresAt),
                ]),
                io.columns,
              ),
        )
        return OK
      }),
    )

  addChanges(tokens, cli)
}

function addChanges(tokens: Command, cli: Cli): void {
  withWhy(tokens.command('add'))
    .argument('<name>', 'the name of its owner, recorded in the history')
    .addOption(roleOption())
    .option('--expires <time>', 'when it ends, as in 2027-01-01T00:00:00Z')
    .description('create a token; it is shown once')
    .addHelpText(
      'after',
      helpOf(
        'sluice tokens add ci --role edit\nsluice tokens add ann --role admin --expires 2027-01-01T00:00:00Z',
      ),
    )
    .action((name: string, { role, expires, why, ...flags }: AddFlags) =>
      run(cli, flags, async ({ client, print }) => {
        const input: TokenInput = {
          name,
          role,
          ...(expires === undefined ? {} : { expiresAt: expires }),
        }
        const token = await client.addToken(input, { why })
        const rows = [
          ['id', token.id],
          ['name', token.name],
          ['role', token.role],
          ['expires', token.expiresAt],
          ['token', token.token],
        ] as const
        print(token, () => `${pairs(rows)}Keep the token now: it is not shown again.\n`)
        return OK
      }),
    )

  withWhy(tokens.command('remove'))
    .argument('<id>', 'the id of a token, from tokens list')
    .description('revoke a token')
    .addHelpText('after', helpOf('sluice tokens remove t_5Kq1'))
    .action((id: string, flags: ChangeFlags) =>
      run(cli, flags, async ({ client, print }) => {
        const done = await client.deleteToken(id, { why: flags.why })
        print(done, () => `${escapeTerminal(id)} is refused now. Version ${done.version}.\n`)
        return OK
      }),
    )
}

function roleOption(): Option {
  return new Option('--role <role>', 'what it may do')
    .choices(['read', 'edit', 'admin'])
    .makeOptionMandatory()
}

const TOKENS_HELP = `
Examples:
  sluice tokens add ci --role edit
  sluice tokens remove t_5Kq1

read looks; edit also changes rules, overrides and keys; admin also makes tokens and follows a store
that was put back.`
