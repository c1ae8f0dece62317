import { randomBytes } from 'node:crypto'
import type { PaymentRequired } from '@x402/core/types'
import { authorizationDigest, domainSeparator } from '../../adapters/chains/evm/check/authorization.ts'
import { addressOfKey, secp256k1 } from '../../adapters/chains/evm/settle/transaction.ts'
import { encodeHeader } from '../../core/x402/header.ts'
import { newBuyer } from '../e2e/helpers/buyers.ts'
import type { Chain, Chains } from '../e2e/helpers/chains.ts'

/** USDC in a wallet, in its smallest unit. */
const FUNDS_ATOMIC = 50_000_000n

/** A wallet with money that signs offers: `PAYMENT-SIGNATURE`'s value. */
export type Payer = (offer: PaymentRequired) => Promise<string>

/**
 * A wallet that costs the machine next to nothing: what signs on EVM is the native library, not a client in JavaScript, which takes
 * some milliseconds of the processor that the gateways are to have.
 */
export async function newPayer(chains: Chains, chain: Chain): Promise<Payer> {
  if (chain.name !== 'evm') return (await newBuyer(chains, chain, FUNDS_ATOMIC)).signOffer
  const key = randomBytes(32)
  const from = addressOfKey(key)
  await chains.evm.mintUsdc(from as `0x${string}`, FUNDS_ATOMIC)
  return async (offer) => signed(chains.evm.chainId, { key, from }, offer)
}

/** Signs the offer's only payment method, in the order and the words of common clients. */
function signed(chainId: number, { key, from }: { key: Buffer; from: string }, offer: PaymentRequired) {
  const { resource, accepts } = offer
  const [accepted] = accepts
  const { asset, amount, payTo, maxTimeoutSeconds, extra } = accepted!
  const { name, version } = extra as { name: string; version: string }
  const nowSeconds = Math.floor(Date.now() / 1_000)
  const authorization = {
    ...{ from, to: payTo, value: amount },
    validAfter: String(nowSeconds - 600),
    validBefore: String(nowSeconds + maxTimeoutSeconds),
    nonce: `0x${randomBytes(32).toString('hex')}`,
  }
  const separator = domainSeparator({ name, version, chainId, verifyingContract: asset.toLowerCase() })
  const terms = { ...authorization, to: payTo.toLowerCase(), signature: '0x' }
  const { signature, recovery } = secp256k1.sign(authorizationDigest(separator, terms), key)
  const hex = `0x${Buffer.from(signature).toString('hex')}${(27 + recovery).toString(16)}`
  return encodeHeader({ x402Version: 2, payload: { authorization, signature: hex }, resource, accepted })
}
