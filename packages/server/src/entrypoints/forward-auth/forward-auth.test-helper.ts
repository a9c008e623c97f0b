/** A proxy on this machine that requests decisions about orders. */
import {
  type ApiRequestOptions,
  startApi,
  type TestApi,
  type TestOptions,
} from '../decision-api/decision-api.test-helper.js'

const LOOPBACK = ['127.0.0.1/32']
export const RULES = [
  {
    id: 'orders',
    match: { method: 'POST', path: '/orders/:id' },
    by: ['ip'],
    limits: ['1/minute'],
  },
]
export const AUTH = '/v1/forward-auth'
export const CLIENT = '203.0.113.7'

export const trusting = (options: TestOptions = {}) =>
  startApi({ rules: RULES, trusted: LOOPBACK, ...options })

/** Whether the rule counted a call of this client, by its remaining budget. */
export async function wasCounted(api: TestApi, ip = CLIENT): Promise<boolean> {
  const attributes = { ip, method: 'POST', path: '/orders/1' }
  const { body } = await api.post('/v1/peek', { attributes })
  return (body as { remaining: number }).remaining === 0
}

export const headers = (more: Record<string, string | string[]> = {}): ApiRequestOptions => ({
  headers: { 'x-forwarded-for': CLIENT, ...more },
})
export const orders = (more: Record<string, string | string[]> = {}) =>
  headers({ 'x-forwarded-method': 'POST', 'x-forwarded-uri': '/orders/1', ...more })
