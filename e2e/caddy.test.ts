/** docs/guides/proxies/Caddyfile, run by Caddy. */
import { join } from 'node:path'
import { findService } from '../tools/services.mjs'
import { type GuideOptions, writeGuideFile } from './guide-file.test-helper.js'
import { makeFolder, type Program, startProgram } from './process.test-helper.js'
import { describeProxy } from './proxy-suite.test-helper.js'

function startCaddy(options: GuideOptions): Program {
  const folder = makeFolder()
  writeGuideFile('Caddyfile', folder, options)
  const args = ['run', '--config', join(folder, 'Caddyfile'), '--adapter', 'caddyfile']
  // Caddy keeps certificates and its last configuration in the user's home directory.
  const env = { HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder }
  return startProgram(findService('caddy'), args, { cwd: folder, env })
}

describeProxy('Caddyfile', startCaddy)
