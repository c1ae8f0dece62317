import { checksumAddress } from '../evm/hex.ts'
import { permit2Address, permit2Proxies } from '../evm/permit2.ts'
import type { OfferTerms } from './offerTerms.ts'
import { permit2Types } from './types.ts'

/** A permit of Permit2 as x402 sends it. Addresses are checksummed, and numbers are in decimal digits. */
export interface Permit2Authorization {
  readonly from: string
  readonly permitted: { readonly token: string; readonly amount: string }
  readonly spender: string
  readonly nonce: string
  /** Seconds since 1970. The transfer may still happen in this second. */
  readonly deadline: string
  readonly witness: Readonly<Record<string, string>>
}

export interface Permit2Payment {
  /** `permit2Authorization` of the x402 `payload`. */
  readonly permit2Authorization: Permit2Authorization
  /** What the payer signs (EIP-712). Numbers are in decimal digits. */
  readonly typedData: {
    readonly domain: {
      readonly name: string
      readonly chainId: number
      readonly verifyingContract: `0x${string}`
    }
    readonly types: Readonly<Record<string, readonly { readonly name: string; readonly type: string }[]>>
    readonly primaryType: string
    readonly message: Readonly<Record<string, unknown>>
  }
}

export interface Permit2Choices {
  /** The payer. */
  readonly from: string
  /** 32 random bytes in hex with 0x. */
  readonly nonce: string
  /** Seconds since 1970. */
  readonly deadline: number
}

/**
 * The payment by Permit2 for an offer's terms, as the reference client makes it. The proxy of the scheme is the spender, and it pays
 * only the witness's `to`. In scheme `upto`, only the witness's `facilitator` can make it charge.
 */
export function permit2Payment(
  { asset, amountAtomic, payTo, permit2 }: OfferTerms,
  { from, nonce, deadline }: Permit2Choices,
): Permit2Payment {
  const to = checksumAddress(payTo.toLowerCase())
  const facilitator = permit2?.facilitator ?? null
  const scheme = facilitator === null ? 'exact' : 'upto'
  // The permit is valid at once. Chains may be behind this machine's clock, so the payer names no time.
  const validAfter = '0'
  const unsigned = {
    permitted: { token: checksumAddress(asset.address.toLowerCase()), amount: amountAtomic.toString() },
    spender: checksumAddress(permit2Proxies[scheme]),
    nonce: BigInt(nonce).toString(),
    deadline: String(deadline),
    witness: facilitator === null ? { to, validAfter } : { to, facilitator, validAfter },
  }
  return {
    permit2Authorization: { from, ...unsigned },
    typedData: {
      domain: {
        name: 'Permit2',
        chainId: Number(asset.network.slice('eip155:'.length)),
        verifyingContract: checksumAddress(permit2Address) as `0x${string}`,
      },
      types: permit2Types[scheme],
      primaryType: 'PermitWitnessTransferFrom',
      message: unsigned,
    },
  }
}
