import type { Egress } from '../../core/ports/egress.ts'

/**
 * The way out for `/v1/vault/call`: connects to public addresses and to the ranges that the credential's owner listed
 * for it, and to no others. The same list gives the same way out.
 */
export type VaultEgress = (allowPrivateCidrs: readonly string[]) => Pick<Egress, 'request'>
