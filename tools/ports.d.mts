/** A port that was free a moment ago, outside the range of outgoing connections. */
export function freePort(): Promise<number>
