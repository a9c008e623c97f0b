/**
 * The files of docs/guides/proxies/kubernetes, as far as they can be checked without the products:
 * what they ask is limited by the configuration beside them, at the address that they name.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test } from 'vitest'
import { parseData } from '../packages/core/src/index.js'
import { VARIABLES } from '../packages/server/src/config/environment.js'
import { parseRatelimitEnvironment } from '../packages/server/src/config/ratelimit/ratelimit-environment.js'
import {
  closeAfterEach,
  TestClient,
} from '../packages/server/src/entrypoints/envoy/envoy.test-helper.js'
import { responseOf } from '../packages/server/src/entrypoints/envoy/protobuf/official-messages.test-helper.js'
import { makeFolder, stopAll } from './process.test-helper.js'
import { start } from './serve.test-helper.js'

afterEach(stopAll)
closeAfterEach()

const PROXIES = fileURLToPath(new URL('../docs/guides/proxies/', import.meta.url))
const HOST = 'sluice.sluice.svc.cluster.local'
const PORT = 8081

/** Everything at a path; `*` is all elements of a list, or all fields of a map. */
function findAll(data: unknown, path: string): readonly unknown[] {
  let found: readonly unknown[] = [data]
  for (const key of path.split('.')) {
    found = found.flatMap((value) => {
      if (typeof value !== 'object' || value === null) return []
      if (key === '*') return Object.values(value)
      return key in value ? [(value as Record<string, unknown>)[key]] : []
    })
  }
  return found
}

const find = (data: unknown, path: string) => findAll(data, path)[0]

function parse(text: string, file: string): unknown {
  const { value, problems } = parseData(text, { file })
  expect(problems).toEqual([])
  return value
}

/** The documents of a file. */
function read(name: string): readonly unknown[] {
  const text = readFileSync(join(PROXIES, name), 'utf8')
  return text.split(/^---$/m).map((each) => parse(each, name))
}

const kubernetes = (name: string) => read(`kubernetes/${name}.yaml`)

function documentOf(documents: readonly unknown[], kind: string, name?: string): unknown {
  return documents.find(
    (each) =>
      find(each, 'kind') === kind &&
      (name ?? find(each, 'metadata.name')) === find(each, 'metadata.name'),
  )
}

interface Asked {
  readonly host: unknown
  readonly port: unknown
  readonly domain: unknown
  /** The keys of the entries of each descriptor. */
  readonly descriptors: readonly (readonly unknown[])[]
}

const hostAndPort = (address: unknown) => {
  const [host, port] = String(address).split(':')
  return { host, port: Number(port) }
}

/** The keys that the actions of Envoy make. */
function keysOfActions(actions: unknown): readonly unknown[] {
  return findAll(actions, '*').map((action) =>
    find(action, 'remote_address') === undefined
      ? find(action, 'request_headers.descriptor_key')
      : 'remote_address',
  )
}

const keysOfRateLimits = (data: unknown, path: string) =>
  findAll(data, `${path}.*.actions`).map(keysOfActions)

const PRODUCTS: Readonly<Record<string, () => Asked>> = {
  istio() {
    const documents = kubernetes('istio')
    const filter = find(documents, '0.spec.configPatches.0.patch.value.typed_config')
    const grpc = find(filter, 'rate_limit_service.grpc_service.envoy_grpc')
    const [, port, , host] = String(find(grpc, 'cluster_name')).split('|')
    expect(find(grpc, 'authority')).toBe(host)
    return {
      host,
      port: Number(port),
      domain: find(filter, 'domain'),
      descriptors: keysOfRateLimits(documents, '1.spec.configPatches.0.patch.value.rate_limits'),
    }
  },
  contour() {
    const documents = kubernetes('contour')
    const service = documentOf(documents, 'ExtensionService')
    const configured = find(documentOf(documents, 'ContourConfiguration'), 'spec.rateLimitService')
    expect(find(service, 'metadata')).toEqual(find(configured, 'extensionService'))
    const proxy = documentOf(documents, 'HTTPProxy')
    const descriptors = findAll(
      proxy,
      'spec.virtualhost.rateLimitPolicy.global.descriptors.*.entries',
    )
    return {
      host: `${String(find(service, 'spec.services.0.name'))}.${String(find(service, 'metadata.namespace'))}.svc.cluster.local`,
      port: find(service, 'spec.services.0.port'),
      domain: find(configured, 'domain'),
      descriptors: descriptors.map((entries) =>
        findAll(entries, '*').map((entry) =>
          find(entry, 'remoteAddress') === undefined
            ? find(entry, 'requestHeader.descriptorKey')
            : 'remote_address',
        ),
      ),
    }
  },
  emissary() {
    const documents = kubernetes('emissary')
    const service = documentOf(documents, 'RateLimitService')
    const labels = find(documentOf(documents, 'Mapping'), 'spec.labels')
    const domain = find(service, 'spec.domain')
    expect(Object.keys(labels as object)).toEqual([domain])
    return {
      ...hostAndPort(find(service, 'spec.service')),
      domain,
      descriptors: findAll(labels, `${String(domain)}.*.*`).map((group) =>
        findAll(group, '*.*.key'),
      ),
    }
  },
  kgateway() {
    const documents = kubernetes('kgateway')
    const extension = documentOf(documents, 'GatewayExtension')
    const backend = find(extension, 'spec.rateLimit.grpcService.backendRef')
    const policy = find(documentOf(documents, 'TrafficPolicy'), 'spec.rateLimit.global')
    expect(find(policy, 'extensionRef')).toEqual(find(extension, 'metadata'))
    return {
      host: `${String(find(backend, 'name'))}.${String(find(backend, 'namespace'))}.svc.cluster.local`,
      port: find(backend, 'port'),
      domain: find(extension, 'spec.rateLimit.domain'),
      descriptors: findAll(policy, 'descriptors.*.entries').map((entries) =>
        findAll(entries, '*').map((entry) =>
          find(entry, 'type') === 'RemoteAddress' ? 'remote_address' : find(entry, 'header'),
        ),
      ),
    }
  },
  agentgateway() {
    const limit = find(
      kubernetes('agentgateway'),
      '0.binds.0.listeners.0.routes.0.policies.remoteRateLimit',
    )
    return {
      ...hostAndPort(find(limit, 'host')),
      domain: find(limit, 'domain'),
      descriptors: findAll(limit, 'descriptors.*.entries').map((entries) =>
        findAll(entries, '*.key'),
      ),
    }
  },
}

describe('the files for Kubernetes', () => {
  test('are all read here', () => {
    const others = ['sluice', 'envoy-gateway', 'ai-gateway']
    const names = readdirSync(join(PROXIES, 'kubernetes')).map((name) => name.replace('.yaml', ''))
    expect(names.toSorted()).toEqual([...Object.keys(PRODUCTS), ...others].toSorted())
  })

  test('start Sluice with variables that it knows, on the port that its service names', () => {
    const documents = kubernetes('sluice')
    const container = find(documentOf(documents, 'Deployment'), 'spec.template.spec.containers.0')
    const names = findAll(container, 'env.*.name')
    expect(names.filter((name) => !VARIABLES.some((known) => known === name))).toEqual([])
    const service = documentOf(documents, 'Service')
    const target = find(service, 'spec.ports.0.targetPort')
    expect(find(container, 'ports.0.containerPort')).toBe(target)
    expect(find(container, 'readinessProbe.grpc.port')).toBe(target)
    expect(find(documentOf(documents, 'NetworkPolicy'), 'spec.ingress.0.ports.0.port')).toBe(target)
    const config = find(documentOf(documents, 'ConfigMap', 'sluice'), 'data')
    const settings = parse(
      String((config as Record<string, unknown>)['sluice.yaml']),
      'sluice.yaml',
    )
    expect(find(settings, 'envoy.listen')).toBe(`0.0.0.0:${String(target)}`)
  })

  test.each(Object.entries(PRODUCTS))(
    '%s asks Sluice at the address of its service, and a limit applies to each descriptor',
    async (_name, product) => {
      const { host, port, domain, descriptors } = product()
      const documents = kubernetes('sluice')
      const service = documentOf(documents, 'Service')
      expect({ host, port }).toEqual({ host: HOST, port: PORT })
      expect(find(service, 'spec.ports.0.port')).toBe(PORT)
      const { name, namespace } = find(service, 'metadata') as Record<string, string>
      expect(HOST).toBe(`${name}.${namespace}.svc.cluster.local`)

      const folder = makeFolder()
      mkdirSync(join(folder, 'limits'))
      for (const [map, to] of [
        ['sluice', '.'],
        ['sluice-limits', 'limits'],
      ] as const) {
        const data = find(documentOf(documents, 'ConfigMap', map), 'data') as Record<string, string>
        for (const [file, text] of Object.entries(data)) writeFileSync(join(folder, to, file), text)
      }
      const { grpc, program } = await start({ SLUICE_ENVOY_CONFIG: 'limits' }, folder)
      const { error, response } = await new TestClient(grpc).shouldRateLimit({
        domain,
        descriptors: descriptors.map((keys) => ({
          entries: keys.map((key) => ({ key, value: '192.0.2.1' })),
        })),
      })
      expect(error).toBeUndefined()
      const { statuses } = responseOf(response)
      expect(statuses).toHaveLength(descriptors.length)
      for (const { code, currentLimit } of statuses) {
        expect({ code, hasLimit: currentLimit !== undefined }).toEqual({
          code: 'ok',
          hasLimit: true,
        })
      }
      // No limit is counted in another way than its domain says.
      expect(program.output()).not.toContain('counted by a fixed window')
    },
  )

  test('Envoy Gateway gets an image, and AI Gateway the service that it looks for', () => {
    const config = documentOf(kubernetes('envoy-gateway'), 'ConfigMap')
    const { data } = config as { readonly data: Record<string, string> }
    const settings = parse(data['envoy-gateway.yaml'] ?? '', 'envoy-gateway.yaml')
    const image = find(settings, 'provider.kubernetes.rateLimitDeployment.container.image')
    const documents = kubernetes('ai-gateway')
    const deployment = documentOf(documents, 'Deployment')
    expect(find(deployment, 'spec.template.spec.containers.0.image')).toBe(image)
    const container = find(deployment, 'spec.template.spec.containers.0')
    const variables = findAll(container, 'env.*').map((each) => [
      find(each, 'name'),
      find(each, 'value'),
    ])
    const { errors, ignored } = parseRatelimitEnvironment(Object.fromEntries(variables))
    expect({ errors, ignored }).toEqual({ errors: [], ignored: [] })
    const service = documentOf(documents, 'Service')
    expect(find(service, 'metadata')).toEqual({
      name: 'envoy-ai-gateway-ratelimit',
      namespace: 'envoy-gateway-system',
    })
    expect(find(service, 'spec.ports.0.port')).toBe(8081)
    expect(find(service, 'spec.selector')).toEqual(
      find(deployment, 'spec.template.metadata.labels'),
    )
  })
})
