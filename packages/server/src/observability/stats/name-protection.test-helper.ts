/** The three forms in which a process publishes the names of callers. */
import type { NameProtection } from './name-protection.js'
import { TextSealer } from './sealed-text.js'

const sealer = new TextSealer(Buffer.alloc(16, 'secret'))

export const CLEAR: NameProtection = { form: 'clear', sealer }
export const SEALED: NameProtection = { form: 'sealed', sealer }
export const HASHED: NameProtection = { form: 'hash', sealer }
