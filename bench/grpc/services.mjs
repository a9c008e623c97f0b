/** The gRPC methods that are measured: their paths, requests, and what their answers say. */
import {
  gubernatorRequest,
  kindOfGubernatorResponse,
  kindOfRateLimitResponse,
  rateLimitRequest,
} from './messages.mjs'

export const RATE_LIMIT_SERVICE = {
  path: '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
  request: rateLimitRequest,
  kindOf: kindOfRateLimitResponse,
}

export const GUBERNATOR = {
  path: '/pb.gubernator.V1/GetRateLimits',
  request: gubernatorRequest,
  kindOf: kindOfGubernatorResponse,
}

/** Of the servers that give a constant answer. */
export const CONSTANT = {
  path: '/bench.Service/Call',
  request: rateLimitRequest,
  kindOf: kindOfRateLimitResponse,
}
