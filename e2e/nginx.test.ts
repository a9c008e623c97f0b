/** docs/guides/proxies/nginx.conf, run by nginx. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findService } from '../tools/services.mjs'
import { APP_STATUS } from './upstream-app.test-helper.js'
import { call, newCaller } from './http-call.test-helper.js'
import { type GuideOptions, writeGuideFile } from './guide-file.test-helper.js'
import { makeFolder, type Program, startProgram } from './process.test-helper.js'
import { describeProxy } from './proxy-suite.test-helper.js'
import { CONFIG } from './proxy-setup.test-helper.js'

/** What /etc/nginx/nginx.conf does for a file in conf.d: include it inside `http`. */
const MAIN = (folder: string) => `
${process.getuid?.() === 0 ? 'user root;' : ''}
daemon off;
master_process off;
pid ${folder}/nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path ${folder}/body;
    proxy_temp_path ${folder}/proxy;
    fastcgi_temp_path ${folder}/fastcgi;
    uwsgi_temp_path ${folder}/uwsgi;
    scgi_temp_path ${folder}/scgi;
    include ${folder}/nginx.conf;
}
`

function startNginx(options: GuideOptions): Program {
  const folder = makeFolder()
  writeGuideFile('nginx.conf', folder, options)
  writeFileSync(join(folder, 'main.conf'), MAIN(folder))
  const args = ['-p', folder, '-e', 'stderr', '-c', join(folder, 'main.conf')]
  return startProgram(findService('nginx'), args, { cwd: folder })
}

const setup = describeProxy('nginx.conf', startNginx)

test('a refusal is 429 even if Sluice is configured to answer 403', async () => {
  const port = await setup().startSecond({ config: `${CONFIG}api: { refusedStatus: 403 }\n` })
  const from = newCaller()
  expect((await call(port, '/login', { from })).status).toBe(APP_STATUS)
  const refused = await call(port, '/login', { from })
  expect(refused.status).toBe(429)
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(3500)
  expect(JSON.parse(refused.body)).toMatchObject({ status: 429, error: 'rate_limited' })
})

test('clients cannot reach the path of the subrequest to Sluice', async () => {
  const from = newCaller()
  expect((await call(setup().open, '/_sluice_ask', { from })).status).toBe(404)
  expect(setup().app.requestsFrom(from)).toEqual([])
})
