/** The files for proxies without a Debian package: parsed, not run. */
import { expect, test } from 'vitest'
import { readDocument } from '../packages/core/src/config-reader.js'
import type { Node } from '../packages/core/src/rules/tree.js'
import { readGuideFile } from './guide-file.test-helper.js'

function valueOf(node: Node): unknown {
  switch (node.kind) {
    case 'scalar':
      return node.value
    case 'list':
      return node.items.map(valueOf)
    case 'map':
      return Object.fromEntries([...node.entries].map(([key, { value }]) => [key, valueOf(value)]))
    case 'foreign':
      throw new Error(`no text can be a ${node.type}`)
  }
}

function readYaml(name: string): unknown {
  const tree = readDocument(readGuideFile(name))
  if ('problems' in tree) throw new Error(`${name}: ${JSON.stringify(tree.problems)}`)
  return valueOf(tree.root)
}

test('traefik.yaml is valid YAML that removes forged headers, then asks Sluice, then the application', () => {
  expect(readYaml('traefik.yaml')).toMatchObject({
    http: {
      routers: { app: { middlewares: ['no-lies', 'sluice'], service: 'app' } },
      middlewares: {
        'no-lies': { headers: { customRequestHeaders: { 'X-Forwarded-Uri': '' } } },
        sluice: {
          forwardAuth: {
            address: 'http://127.0.0.1:8081/v1/forward-auth',
            trustForwardHeader: false,
          },
        },
      },
      services: { app: { loadBalancer: { servers: [{ url: 'http://127.0.0.1:3000' }] } } },
    },
  })
})

test('envoy.yaml is valid YAML that puts the path of the call below that of forward-auth', () => {
  expect(readYaml('envoy.yaml')).toMatchObject({
    name: 'envoy.filters.http.ext_authz',
    typed_config: {
      failure_mode_allow: true,
      http_service: { path_prefix: '/v1/forward-auth', server_uri: { cluster: 'sluice' } },
    },
  })
})
