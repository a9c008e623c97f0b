#!/usr/bin/env node
/** The `sluice` command. In a fresh clone it builds the packages first. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'

const built = new URL('../dist/index.js', import.meta.url)
const repository = new URL('../../../', import.meta.url)
if (!existsSync(built) && existsSync(new URL('tsconfig.base.json', repository))) {
  console.error('Building Sluice, once.')
  const { status } = spawnSync('npm', ['run', '--silent', 'build'], {
    cwd: fileURLToPath(repository),
    stdio: 'inherit',
  })
  if (status !== 0) process.exit(status ?? 1)
}
const { main } = await import(built.href)
const [, started = '', ...words] = process.argv
// A link named ratelimit is what Envoy Gateway starts, so it stands for envoyproxy/ratelimit.
const isRatelimit = basename(started) === 'ratelimit'
// Exit explicitly: a pending timer must not keep a stopped server alive.
process.exit(await main(isRatelimit ? ['serve', '--as-envoy-ratelimit', ...words] : words))
