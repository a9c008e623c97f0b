/** Opens the gRPC methods on the server that the configuration names; it does not listen yet. */
import type { EnvoyServiceConfig } from '../../../config/config.js'
import { wallClock } from '../../../lib/wall-clock.js'
import { type GrpcJsDeps, serveWithGrpcJs } from './grpc-js-server.js'
import { GrpcListener } from './grpc-listener.js'
import type { GrpcServer, GrpcServerOptions } from './grpc-server.js'
import { UnaryGrpcServer } from './unary-server.js'

export interface GrpcServerDeps extends Omit<GrpcJsDeps, 'clock'> {
  readonly kind: EnvoyServiceConfig['server']
}

export function openGrpcServer(options: GrpcServerOptions, deps: GrpcServerDeps): GrpcServer {
  const { kind, unary } = deps
  if (kind === 'own') return new UnaryGrpcServer(options, deps)
  const paths = new Set(unary.map(({ path }) => path))
  const listener = new GrpcListener({ ...options, isUnary: (path) => paths.has(path) })
  serveWithGrpcJs(listener.server, { ...deps, clock: wallClock })
  return listener
}
