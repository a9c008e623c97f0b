/** A port that was free a moment ago, outside those of outgoing connections. */
export function freePort(): Promise<number>
