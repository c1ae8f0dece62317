import type { Asset } from '../../../../core/domain/asset.ts'
import type { NetworkId } from '../../../../core/domain/network.ts'
import type { PaymentPayload } from '../../../../core/x402/types.ts'
import {
  type Authorization,
  authorizationDigest,
  domainSeparator,
  readAuthorization,
} from './authorization.ts'
import { recoverSigner, withEthereumV } from './recoverSigner.ts'

/** Hash of each token's EIP-712 domain, by its address in lower case; tokens without a domain are left out. */
export type Separators = ReadonlyMap<string, Uint8Array>

export function separatorsOf(network: NetworkId, assets: readonly Asset[]): Separators {
  const chainId = Number(network.slice('eip155:'.length))
  const separators = new Map<string, Uint8Array>()
  for (const { network: own, eip712, address } of assets) {
    if (own !== network || eip712 === undefined) continue
    const verifyingContract = address.toLowerCase()
    separators.set(verifyingContract, domainSeparator({ ...eip712, chainId, verifyingContract }))
  }
  return separators
}

/**
 * The authorization with its v as the token takes it, 27 or 28: hardware and MPC wallets write 0 or 1. Only a signature of the
 * payer's own key is changed. 65 bytes of a contract wallet mean what the wallet says: to Safe, 1 is a hash that was approved before.
 *
 * @param asset the token's address, any case
 */
export function withTokensV(
  authorization: Authorization,
  asset: string,
  separators: Separators,
): Authorization {
  const signature = withEthereumV(authorization.signature)
  if (signature === authorization.signature) return authorization
  const separator = separators.get(asset.toLowerCase())
  if (separator === undefined) return authorization
  const isOwn = recoverSigner(authorizationDigest(separator, authorization), signature) === authorization.from
  return isOwn ? { ...authorization, signature } : authorization
}

/** The same for a whole payment, as a facilitator is sent it. */
export function paymentWithTokensV(
  payment: PaymentPayload,
  asset: string,
  separators: Separators,
): PaymentPayload {
  const read = readAuthorization(payment.payload)
  if (!read.ok) return payment
  const { signature } = withTokensV(read.authorization, asset, separators)
  if (signature === read.authorization.signature) return payment
  return { ...payment, payload: { ...payment.payload, signature } }
}
