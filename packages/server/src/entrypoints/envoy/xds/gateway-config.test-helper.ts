/** A configuration in the shape that Envoy Gateway generates: one domain for each listener. */
import type { OfficialConfig } from '../protobuf/rate-limit-config.test-helper.js'

const ROUTE = 'httproute/shop/orders/rule/0'

/** Keys and values are equal where a match is all that counts. */
const named = (name: string) => ({ key: name, value: name })

export const GATEWAY_CONFIG: OfficialConfig = {
  name: 'shop/eg/http',
  domain: 'shop/eg/http',
  descriptors: [
    {
      ...named(ROUTE),
      descriptors: [
        // Requests with a certain header.
        { ...named('rule-0-match-0'), rate_limit: { unit: 'MINUTE', requests_per_unit: 3 } },
        // Each value of a header.
        { key: 'rule-1-match-0', rate_limit: { unit: 'MINUTE', requests_per_unit: 5 } },
        // Each address of a network, for requests with a certain header.
        {
          ...named('rule-2-match-0'),
          descriptors: [
            {
              key: 'masked_remote_address',
              value: '192.168.0.0/16',
              descriptors: [
                {
                  key: 'remote_address',
                  rate_limit: { unit: 'HOUR', requests_per_unit: 10 },
                },
              ],
            },
          ],
        },
      ],
    },
  ],
}
