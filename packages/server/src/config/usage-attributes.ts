/** Names the attributes that the gateway sets for calls of upstreams with `usage`. */

/** Those that rules name in `cost`. */
export const COST_ATTRIBUTES = ['input_tokens', 'output_tokens', 'tokens', 'spend'] as const

/** All of them; no header may set one. */
export const USAGE_ATTRIBUTES: readonly string[] = ['model', 'stream', ...COST_ATTRIBUTES]
