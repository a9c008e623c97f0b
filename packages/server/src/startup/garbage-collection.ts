/** Settings of V8's garbage collector, which are those of a whole process: a server's own. */
import { setFlagsFromString } from 'node:v8'

/**
 * Allocates the objects of every call where they are cheap to collect. V8 would allocate those that
 * live while a call waits for the store in the old generation, where they keep alive all that they
 * refer to: see docs/performance.md. It reads this flag whenever it decides that, so it may change.
 */
export function disablePretenuring(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}
