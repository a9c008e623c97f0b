/** `sluice keys ...`: the API keys of callers. */
import type { KeyInput, KeyPatch, KeyView } from '@sluice/client'
import type { Command } from 'commander'
import { UsageError, OK } from '../command-errors.js'
import { instantText } from '../time-format.js'
import { escapeTerminal } from '../terminal-escape.js'
import {
  type ChangeFlags,
  type Cli,
  type CommonFlags,
  helpOf,
  run,
  type CommandContext,
  withCommon,
  withWhy,
  wholeNumber,
} from '../command-context.js'
import { pairs, table } from '../text-table.js'
import { addKeysImport } from './keys-import.js'
import { paginate } from '../paginate.js'

const LISTED_DEFAULT = 100
const PAGE = 1000
const KEY_BYTES_MAX = 8192

interface ListFlags extends CommonFlags {
  readonly user?: string
  readonly limit: number
  readonly after?: string
}

interface AddFlags extends ChangeFlags {
  readonly user?: string
  readonly plan?: string
  readonly name?: string
  readonly keyStdin?: boolean
  readonly sha256?: string
}

interface SetFlags extends ChangeFlags {
  readonly user?: string
  readonly plan?: string
  readonly name?: string
}

export function addKeys(program: Command, cli: Cli): void {
  const keys = program
    .command('keys')
    .description('manage API keys, which give a call its user and plan')
    .addHelpText('after', KEYS_HELP)

  withCommon(keys.command('list'))
    .option('--user <user>', 'only keys of this user')
    .option('--limit <count>', 'maximum number of keys', wholeNumber('--limit', 1), LISTED_DEFAULT)
    .option('--after <id>', 'only keys after this one')
    .description('known keys; the keys themselves are not kept anywhere')
    .addHelpText(
      'after',
      helpOf('sluice keys list --user acme\nsluice keys list --limit 5000 --json'),
    )
    .action((flags: ListFlags) => run(cli, flags, (context) => listKeys(context, flags)))

  withWhy(keys.command('add'))
    .option('--user <user>', 'the user of its calls')
    .option('--plan <plan>', 'the plan of its calls')
    .option('--name <name>', 'a display name')
    .option('--key-stdin', 'read the key from standard input instead of generating one')
    .option('--sha256 <hash>', 'the SHA-256 of a key, 64 hex digits')
    .description('generate a key, or register an existing one; a generated key is shown once')
    .addHelpText('after', helpOf(ADD_EXAMPLES))
    .action((flags: AddFlags) => run(cli, flags, (context) => addKey(context, flags)))

  addKeysImport(keys, cli)
  addState(keys, cli, 'disable', 'disabled', 'calls with it have no identity from now on')
  addState(keys, cli, 'enable', 'active', 'calls with it have its user and plan again')
  addOthers(keys, cli)
}

const KEYS_HELP = `
Examples:
  sluice keys add --user acme --plan pro
  sluice keys disable k_7Yc2 --why 'leaked'

A change is live on every node within a second.`
const ADD_EXAMPLES = `sluice keys add --user acme --plan pro --name 'build server'
printf %s "$KEY" | sluice keys add --user acme --key-stdin
sluice keys add --user acme --sha256 "$(printf %s "$KEY" | sha256sum | cut -c1-64)"`

function addState(
  keys: Command,
  cli: Cli,
  command: 'disable' | 'enable',
  state: KeyView['state'],
  means: string,
): void {
  withWhy(keys.command(command))
    .argument('<id>', 'the id of a key, from keys list')
    .description(`${command} a key: ${means}`)
    .addHelpText('after', helpOf(`sluice keys ${command} k_7Yc2 --why 'leaked'`))
    .action((id: string, flags: ChangeFlags) =>
      run(cli, flags, (context) => patchKey(context, id, { state }, flags)),
    )
}

function addOthers(keys: Command, cli: Cli): void {
  withWhy(keys.command('remove'))
    .argument('<id>', 'the id of a key')
    .description('remove a key; its calls are refused or anonymous from now on')
    .addHelpText('after', helpOf('sluice keys remove k_7Yc2'))
    .action((id: string, flags: ChangeFlags) =>
      run(cli, flags, async ({ client, print }) => {
        const done = await client.deleteKey(id, { why: flags.why })
        print(done, () => `${escapeTerminal(id)} is unknown now. Version ${done.version}.\n`)
        return OK
      }),
    )

  withWhy(keys.command('set'))
    .argument('<id>', 'the id of a key')
    .option('--user <user>', "the user of its calls; '' for none")
    .option('--plan <plan>', "the plan of its calls; '' for none")
    .option('--name <name>', "a display name; '' for none")
    .description('change the user, plan or name of a key')
    .addHelpText(
      'after',
      helpOf("sluice keys set k_7Yc2 --plan pro\nsluice keys set k_7Yc2 --plan ''"),
    )
    .action((id: string, flags: SetFlags) =>
      run(cli, flags, (context) => patchKey(context, id, readPatch(flags), flags)),
    )
}

async function listKeys({ io, client, print }: CommandContext, flags: ListFlags): Promise<number> {
  const request = { from: flags.after, max: flags.limit, page: PAGE }
  const { items: keys, next } = await paginate<KeyView, string>(request, async (after, limit) => {
    const page = await client.listKeys({ user: flags.user, after, limit })
    return { items: page.keys, next: page.next }
  })
  print({ keys, next }, () =>
    keys.length === 0
      ? 'No keys.\n'
      : table(
          ['ID', 'USER', 'PLAN', 'STATE', 'NAME', 'ENDS IN', 'CREATED'],
          keys.map((key) => [
            key.id,
            key.user,
            key.plan,
            key.state,
            key.name,
            key.last4,
            instantText(key.createdAt),
          ]),
          io.columns,
        ),
  )
  if (next !== null) io.err(`More results: --after ${escapeTerminal(next)}\n`)
  return OK
}

async function addKey({ io, client, print }: CommandContext, flags: AddFlags): Promise<number> {
  const { user, plan, name, sha256, why } = flags
  if (flags.keyStdin === true && sha256 !== undefined) {
    throw new UsageError('found --key-stdin and --sha256; accepted: one of them, or neither')
  }
  const given = flags.keyStdin === true ? await readKey(io) : undefined
  const input: KeyInput = {
    ...(given === undefined ? {} : { key: given }),
    ...(sha256 === undefined ? {} : { sha256 }),
    ...(user === undefined ? {} : { user }),
    ...(plan === undefined ? {} : { plan }),
    ...(name === undefined ? {} : { name }),
  }
  const { key, ...added } = await client.addKey(input, { why })
  // Only a generated key is printed: a given one is known, and a log may keep the output.
  const made = given === undefined ? key : undefined
  print(made === undefined ? added : { ...added, key: made }, () =>
    keyText({ ...added, key: made }),
  )
  return OK
}

async function readKey(io: CommandContext['io']): Promise<string> {
  const text = await io.readInput(KEY_BYTES_MAX)
  const key = text.replace(/\r?\n$/, '')
  if (key !== '' && !/[\r\n]/.test(key)) return key
  throw new UsageError(
    `standard input: found ${key === '' ? 'nothing' : 'several lines'}; accepted: one key`,
  )
}

function keyText(key: Omit<KeyView, 'key'> & { readonly key: string | undefined }): string {
  const details = pairs([
    ['id', key.id],
    ['user', key.user],
    ['plan', key.plan],
    ['state', key.state],
    ['name', key.name],
    ...(key.key === undefined ? [] : [['key', key.key] as const]),
  ])
  return key.key === undefined ? details : `${details}Save the key now: it is not shown again.\n`
}

async function patchKey(
  { client, print }: CommandContext,
  id: string,
  patch: KeyPatch,
  { why }: ChangeFlags,
): Promise<number> {
  const key = await client.patchKey(id, patch, { why })
  print(key, () => keyText({ ...key, key: undefined }))
  return OK
}

function readPatch({ user, plan, name }: SetFlags): KeyPatch {
  const fields = Object.entries({ user, plan, name }).flatMap(([field, value]) =>
    value === undefined ? [] : [[field, value === '' ? null : value] as const],
  )
  if (fields.length > 0) return Object.fromEntries(fields)
  throw new UsageError('found nothing to set; accepted: --user, --plan, --name')
}
