import { randomBytes } from 'node:crypto'
import { bytesToHex, getAddress, type Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { evmTermsFault } from '../../core/x402/evmTermsFault.ts'
import { transferTypes } from '../../core/x402/transferTypes.ts'
import { BuyerRefusal, type KeyBuyer, type SignedPayment } from '../buyer.ts'
import { askEvmChain, domainOf } from './askEvmChain.ts'

/** Longest time a signed authorisation may be used, whatever the seller asks for, in seconds. */
const MAX_VALIDITY_SECONDS = 3_600
/** How far the seller's chain may be behind our clock, in seconds; what the reference client grants too. */
const CLOCK_SKEW_SECONDS = 600

export interface EvmBuyerOptions {
  /** 32 bytes as 0x hex. */
  readonly privateKey: Hex
  /** Default: the network's public node. */
  readonly rpcUrl?: string
  /** Time in ms since 1970; for tests. */
  readonly now?: () => number
}

/**
 * A wallet that signs one EIP-3009 authorisation for an offer in a token that we know. It signs nothing else: no
 * approval, no permit, no transaction.
 *
 * @example
 * const buyer = createEvmBuyer({ privateKey: '0x…' })
 * const payment = await buyer.sign(terms, AbortSignal.timeout(10_000))
 */
export function createEvmBuyer(options: EvmBuyerOptions): KeyBuyer {
  const account = privateKeyToAccount(options.privateKey)
  const now = options.now ?? Date.now
  let hasSigned = false
  /** What the chain refuses was not signed, and another offer may be. */
  const again = (error: unknown): never => {
    hasSigned = false
    throw error
  }

  return {
    address: account.address,
    objectTo: (terms) => evmTermsFault(terms, account.address),
    async sign(terms, signal) {
      if (hasSigned) throw new BuyerRefusal('This run has signed a payment; it signs no second one.')
      hasSigned = true
      const problem = evmTermsFault(terms, account.address)
      if (problem !== undefined) throw new BuyerRefusal(`The offer was not signed: ${problem}.`)
      const domain = domainOf(terms)
      const blockBound = await askEvmChain(terms, account.address, options.rpcUrl, signal).catch(again)

      const nowSeconds = Math.floor(now() / 1_000)
      const validBefore = nowSeconds + Math.min(terms.maxTimeoutSeconds, MAX_VALIDITY_SECONDS)
      const authorization = {
        from: account.address,
        to: getAddress(terms.payTo),
        value: terms.amountAtomic.toString(),
        validAfter: String(nowSeconds - CLOCK_SKEW_SECONDS),
        validBefore: String(validBefore),
        nonce: bytesToHex(randomBytes(32)),
      }
      const signature = await account.signTypedData({
        domain,
        types: transferTypes,
        primaryType: 'TransferWithAuthorization',
        message: {
          ...authorization,
          value: terms.amountAtomic,
          validAfter: BigInt(authorization.validAfter),
          validBefore: BigInt(authorization.validBefore),
        },
      })
      return {
        network: terms.asset.network,
        asset: terms.asset.address,
        amount: authorization.value,
        payTo: authorization.to,
        payer: account.address,
        payload: { signature, authorization },
        validBeforeMs: validBefore * 1_000,
        blockBound,
      } satisfies SignedPayment
    },
  }
}
