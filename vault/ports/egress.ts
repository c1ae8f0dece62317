import type { Egress } from '../../core/ports/egress.ts'

/**
 * Network access for `/v1/vault/call`. It reaches only public addresses and the ranges that the owner listed for the
 * credential. The same list returns the same egress.
 */
export type VaultEgress = (allowPrivateCidrs: readonly string[]) => Pick<Egress, 'request'>
