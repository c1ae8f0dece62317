import type { Asset } from '../../../../core/domain/asset.ts'
import type { NetworkId } from '../../../../core/domain/network.ts'
import type { PaymentPayload } from '../../../../core/x402/types.ts'
import { chainIdOf } from '../rpc/nodes.ts'
import {
  type Authorization,
  type AuthorizationRead,
  authorizationDigest,
  domainSeparator,
  own,
  readAuthorization,
  recoverSigner,
  withEthereumV,
} from './authorization.ts'
import { permit2Digest, permit2Separator, readPermit2 } from './permit2.ts'

/** Reads the signed authorization of a payment, of either kind, without comparing it with terms. */
export const readSigned = (payment: PaymentPayload): AuthorizationRead =>
  own(payment.payload, 'permit2Authorization') === undefined
    ? readAuthorization(payment.payload)
    : readPermit2(payment)

/** Computes what payers sign on one network. */
export class Digests {
  /** Hash of each token's EIP-712 domain, by the token's lower-case address. */
  readonly #tokens = new Map<string, Uint8Array>()
  readonly #permit2: Uint8Array

  constructor(network: NetworkId, assets: readonly Asset[]) {
    const chainId = chainIdOf(network)
    this.#permit2 = permit2Separator(chainId)
    for (const { network: own, eip712, address } of assets) {
      if (own !== network || eip712 === undefined) continue
      const verifyingContract = address.toLowerCase()
      this.#tokens.set(verifyingContract, domainSeparator({ ...eip712, chainId, verifyingContract }))
    }
  }

  /**
   * The 32 bytes that the payer signs for an authorization.
   *
   * @param asset the token's address, in any case
   * @returns undefined for an authorization by EIP-3009 of a token whose EIP-712 domain is not configured
   */
  of(authorization: Authorization, asset: string): Uint8Array | undefined {
    const { permit2 } = authorization
    if (permit2 !== undefined) return permit2Digest(this.#permit2, authorization, permit2)
    const separator = this.#tokens.get(asset.toLowerCase())
    return separator && authorizationDigest(separator, authorization)
  }
}

/**
 * Changes the signature's `v` to 27 or 28, because tokens and Permit2 accept nothing else and hardware and MPC wallets write 0 or 1.
 * The function changes only a signature by the payer's own key, because a contract wallet defines the meaning of its own 65 bytes.
 * For example, Safe reads `v` = 1 as a hash that its owner approved before.
 *
 * @param asset the token's address, in any case
 */
export function withTokensV(authorization: Authorization, asset: string, digests: Digests): Authorization {
  const signature = withEthereumV(authorization.signature)
  if (signature === authorization.signature) return authorization
  const digest = digests.of(authorization, asset)
  const isOwn = digest !== undefined && recoverSigner(digest, signature) === authorization.from
  return isOwn ? { ...authorization, signature } : authorization
}

/** Applies {@link withTokensV} to a whole payment, as it is sent to a facilitator. */
export function paymentWithTokensV(payment: PaymentPayload, asset: string, digests: Digests): PaymentPayload {
  const read = readSigned(payment)
  if (!read.ok) return payment
  const { signature } = withTokensV(read.authorization, asset, digests)
  if (signature === read.authorization.signature) return payment
  return { ...payment, payload: { ...payment.payload, signature } }
}
